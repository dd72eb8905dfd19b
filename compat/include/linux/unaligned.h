/* SPDX-License-Identifier: GPL-2.0 */
/* Shadow of <linux/unaligned.h>, which was <asm/unaligned.h> before 6.12. */
#if HAVE_LINUX_UNALIGNED_H
#include_next <linux/unaligned.h>
#else
#include <asm/unaligned.h>
#endif
