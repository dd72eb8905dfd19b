/* SPDX-License-Identifier: GPL-2.0 */
/* ilog2() of unsigned numbers above zero */
#ifndef TESTS_LINUX_LOG2_H
#define TESTS_LINUX_LOG2_H

#define ilog2(n) (63 - __builtin_clzll((unsigned long long)(n)))

#endif
