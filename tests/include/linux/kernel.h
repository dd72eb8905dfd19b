/* SPDX-License-Identifier: GPL-2.0 */
/* What option parsing uses of the kernel's basics */
#ifndef TESTS_LINUX_KERNEL_H
#define TESTS_LINUX_KERNEL_H

#include_next <linux/kernel.h>

#include <ctype.h>
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#define ARRAY_SIZE(a) (sizeof(a) / sizeof((a)[0]))

/*
 * Numbers as kstrto*() take them: a sign directly before the digits (minus only
 * where @min allows), 0x or 0 prefixes for base 0, one newline at the end,
 * nothing else.
 */
static inline int tests_kstrto(const char *s, int base, long long min,
			       long long max, long long *res)
{
	const char *digits = s + (*s == '+' || (*s == '-' && min < 0));
	char *end;

	if (!isxdigit((unsigned char)*digits))
		return -EINVAL;
	errno = 0;
	*res = strtoll(s, &end, base);
	if (*end == '\n')
		end++;
	if (end == digits || *end)
		return -EINVAL;
	return errno || *res < min || *res > max ? -ERANGE : 0;
}

static inline int kstrtouint(const char *s, unsigned int base,
			     unsigned int *res)
{
	long long v;
	int err = tests_kstrto(s, base, 0, UINT_MAX, &v);

	if (!err)
		*res = v;
	return err;
}

static inline int kstrtoint(const char *s, unsigned int base, int *res)
{
	long long v;
	int err = tests_kstrto(s, base, INT_MIN, INT_MAX, &v);

	if (!err)
		*res = v;
	return err;
}

/* Without white space at both ends; cuts in place */
static inline char *strim(char *s)
{
	size_t n = strlen(s);

	while (n && isspace((unsigned char)s[n - 1]))
		n--;
	s[n] = '\0';
	while (isspace((unsigned char)*s))
		s++;
	return s;
}

#endif
