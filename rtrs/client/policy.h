/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Multipath policies: their names, and the comparisons they are made of.  Pure,
 * so that the unit tests try them on the host; multipath.c walks the paths.
 */
#ifndef RTRS_CLIENT_POLICY_H
#define RTRS_CLIENT_POLICY_H

#include <linux/errno.h>
#include <linux/types.h>

enum client_policy {
	CLIENT_ROUND_ROBIN,
	CLIENT_MIN_INFLIGHT,
	CLIENT_MIN_LATENCY,
	CLIENT_NR_POLICIES,
};

struct client_policy_name {
	const char	*name;
	const char	*alias;	/* two letters, lower case */
	const char	*shown;
};

static inline const struct client_policy_name *
client_policy_info(enum client_policy policy)
{
	static const struct client_policy_name names[CLIENT_NR_POLICIES] = {
		[CLIENT_ROUND_ROBIN]	= { "round-robin", "rr", "RR" },
		[CLIENT_MIN_INFLIGHT]	= { "min-inflight", "mi", "MI" },
		[CLIENT_MIN_LATENCY]	= { "min-latency", "ml", "ML" },
	};

	return &names[policy];
}

/* Are the @len characters of @str the name @name, in whatever case? */
static inline bool client_policy_is(const char *str, size_t len,
				    const char *name)
{
	size_t i;

	for (i = 0; i < len; i++) {
		char c = str[i];

		if (c >= 'A' && c <= 'Z')
			c += 'a' - 'A';
		if (!name[i] || c != name[i])
			return false;
	}
	return !name[len];
}

/**
 * client_policy_parse() - a policy by its name, alias or number
 * @str:	text; a newline at its end is ignored
 * @len:	its length
 *
 * Return: the policy, or -EINVAL.
 */
static inline int client_policy_parse(const char *str, size_t len)
{
	unsigned int number = 0;
	size_t i;

	if (len && str[len - 1] == '\n')
		len--;
	if (!len)
		return -EINVAL;
	for (i = 0; i < CLIENT_NR_POLICIES; i++) {
		const struct client_policy_name *p = client_policy_info(i);

		if (client_policy_is(str, len, p->name) ||
		    client_policy_is(str, len, p->alias))
			return i;
	}
	for (i = 0; i < len; i++) {
		if (str[i] < '0' || str[i] > '9')
			return -EINVAL;
		number = number * 10 + (str[i] - '0');
		if (number >= CLIENT_NR_POLICIES)
			return -EINVAL;
	}
	return number;
}

/**
 * struct client_load - what min-inflight knows about a path
 * @inflight:	requests on the connection in question
 * @latency:	round trip of a heartbeat, ns; 0: not known
 * @rank:	whose turn it is, low first
 */
struct client_load {
	unsigned int	inflight;
	s64		latency;
	unsigned int	rank;
};

/* Differences below that are noise. */
#define CLIENT_CLEAR_NS	500000

static inline bool client_clearly_faster(s64 a, s64 b)
{
	return a > 0 && b - a > CLIENT_CLEAR_NS && b / 2 > a;
}

/**
 * client_load_better() - min-inflight: is path @a to be preferred to @b?
 * @a:		a path
 * @b:		another one
 *
 * With the same load on both, one that is clearly faster; else in turn.
 */
static inline bool client_load_better(const struct client_load *a,
				      const struct client_load *b)
{
	if (a->inflight != b->inflight)
		return a->inflight < b->inflight;
	if (client_clearly_faster(a->latency, b->latency))
		return true;
	if (client_clearly_faster(b->latency, a->latency))
		return false;
	return a->rank < b->rank;
}

#endif /* RTRS_CLIENT_POLICY_H */
