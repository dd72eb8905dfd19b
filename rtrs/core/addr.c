// SPDX-License-Identifier: GPL-2.0
/*
 * Path addresses: the text grammar of map_device and sysfs, and its inverse.
 *
 *	path    = [src ("," | "@")] dst
 *	address = "ip:" IPv4 | "ip:" IPv6 ["%" scope] | "gid:" GID
 *
 * The first comma separates; without a comma the first at sign does.  All
 * functions are pure except for the look-up of an IPv6 scope by device name.
 */
#include <linux/inet.h>
#include <linux/module.h>
#include <linux/string.h>
#include <net/ipv6.h>
#include <net/net_namespace.h>
#include <rdma/ib.h>

#include "internal.h"

static int parse_ip(const char *str, u16 port, struct sockaddr_storage *ss)
{
	char port_str[8];

	snprintf(port_str, sizeof(port_str), "%u", port);
	return inet_pton_with_scope(&init_net, AF_UNSPEC, str, port_str, ss);
}

static int parse_gid(const char *str, u16 port, struct sockaddr_storage *ss)
{
	struct sockaddr_ib *sib = (struct sockaddr_ib *)ss;
	const char *end;

	if (!in6_pton(str, -1, sib->sib_addr.sib_raw, -1, &end) || *end)
		return -EINVAL;
	sib->sib_family = AF_IB;
	sib->sib_pkey = cpu_to_be16(0xFFFF);
	sib->sib_sid = cpu_to_be64((u64)RDMA_PS_IB << 16 | port);
	sib->sib_sid_mask = cpu_to_be64(~0ULL);
	return 0;
}

static int parse_one(const char *str, size_t len, u16 port,
		     struct sockaddr_storage *ss)
{
	char buf[RTRS_ADDR_STRLEN];
	int err;

	memset(ss, 0, sizeof(*ss));
	if (len >= sizeof(buf))
		return -EINVAL;
	memcpy(buf, str, len);
	buf[len] = '\0';

	if (!strncmp(buf, "ip:", 3))
		err = parse_ip(buf + 3, port, ss);
	else if (!strncmp(buf, "gid:", 4))
		err = parse_gid(buf + 4, port, ss);
	else
		return -EPROTONOSUPPORT;
	return err ? -EINVAL : 0;
}

/* A wildcard is no address: routing shall choose, as if nothing was given. */
static bool is_any(const struct sockaddr_storage *ss)
{
	switch (ss->ss_family) {
	case AF_INET:
		return !((struct sockaddr_in *)ss)->sin_addr.s_addr;
	case AF_INET6:
		return ipv6_addr_any(&((struct sockaddr_in6 *)ss)->sin6_addr);
	default:
		return ib_addr_any(&((struct sockaddr_ib *)ss)->sib_addr);
	}
}

/**
 * rtrs_addr_parse() - parse a path specification
 * @str:	text, not necessarily terminated
 * @len:	its length
 * @port:	destination port; the source port is always 0
 * @addr:	result; the source's family is AF_UNSPEC if none was given, or one
 *		of all zeros
 *
 * Context: process context.
 * Return: 0; -EPROTONOSUPPORT for a destination without a known prefix;
 * -EINVAL for everything else that is no address.
 */
int rtrs_addr_parse(const char *str, size_t len, u16 port,
		    struct rtrs_addr *addr)
{
	const char *sep = memchr(str, ',', len);

	memset(addr, 0, sizeof(*addr));
	if (!sep)
		sep = memchr(str, '@', len);
	if (sep) {
		if (parse_one(str, sep - str, 0, &addr->src))
			return -EINVAL;
		if (is_any(&addr->src))
			memset(&addr->src, 0, sizeof(addr->src));
		len -= sep + 1 - str;
		str = sep + 1;
	}
	return parse_one(str, len, port, &addr->dst);
}
EXPORT_SYMBOL_GPL(rtrs_addr_parse);

/**
 * rtrs_addr_format() - print an address without its port
 * @ss:		address
 * @buf:	destination, RTRS_ADDR_STRLEN bytes hold every address
 * @size:	room in @buf, bytes
 *
 * Context: any.
 * Return: characters written, without the NUL.
 */
int rtrs_addr_format(const struct sockaddr_storage *ss, char *buf, size_t size)
{
	switch (ss->ss_family) {
	case AF_INET:
		return scnprintf(buf, size, "ip:%pI4",
				 &((struct sockaddr_in *)ss)->sin_addr);
	case AF_INET6:
		return scnprintf(buf, size, "ip:%pI6c",
				 &((struct sockaddr_in6 *)ss)->sin6_addr);
	case AF_IB:
		return scnprintf(buf, size, "gid:%pI6",
				 ((struct sockaddr_ib *)ss)->sib_addr.sib_raw);
	default:
		return scnprintf(buf, size, "<invalid address family>");
	}
}
EXPORT_SYMBOL_GPL(rtrs_addr_format);

/**
 * rtrs_addr_format_path() - print "src@dst"
 * @src:	source
 * @dst:	destination
 * @buf:	destination, RTRS_PATH_STRLEN bytes hold every pair
 * @size:	room in @buf, bytes
 *
 * Context: any.
 * Return: characters written, without the NUL.
 */
int rtrs_addr_format_path(const struct sockaddr_storage *src,
			  const struct sockaddr_storage *dst,
			  char *buf, size_t size)
{
	int n = rtrs_addr_format(src, buf, size);

	n += scnprintf(buf + n, size - n, "@");
	return n + rtrs_addr_format(dst, buf + n, size - n);
}
EXPORT_SYMBOL_GPL(rtrs_addr_format_path);

/**
 * rtrs_addr_equal() - same family and same address?
 * @a:		an address
 * @b:		another one
 *
 * Ports are not compared.  Two addresses of different families are never
 * equal, neither are two of an unknown family.
 *
 * Context: any.
 */
bool rtrs_addr_equal(const struct sockaddr_storage *a,
		     const struct sockaddr_storage *b)
{
	if (a->ss_family != b->ss_family)
		return false;
	switch (a->ss_family) {
	case AF_INET:
		return ((struct sockaddr_in *)a)->sin_addr.s_addr ==
		       ((struct sockaddr_in *)b)->sin_addr.s_addr;
	case AF_INET6:
		return ipv6_addr_equal(&((struct sockaddr_in6 *)a)->sin6_addr,
				       &((struct sockaddr_in6 *)b)->sin6_addr);
	case AF_IB:
		return !memcmp(((struct sockaddr_ib *)a)->sib_addr.sib_raw,
			       ((struct sockaddr_ib *)b)->sib_addr.sib_raw, 16);
	default:
		return false;
	}
}
EXPORT_SYMBOL_GPL(rtrs_addr_equal);
