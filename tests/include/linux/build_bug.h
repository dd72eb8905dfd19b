/* SPDX-License-Identifier: GPL-2.0 */
/* static_assert() with an optional message, as in the kernel */
#ifndef TESTS_LINUX_BUILD_BUG_H
#define TESTS_LINUX_BUILD_BUG_H

#include <assert.h>
#undef static_assert
#define static_assert(expr, ...) _Static_assert(expr, #expr)

#endif
