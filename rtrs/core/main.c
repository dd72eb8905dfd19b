// SPDX-License-Identifier: GPL-2.0
/*
 * rtrs-core: what rtrs-client and rtrs-server share.
 */
#include <linux/module.h>

#include "internal.h"

/* Its name is what counts. */
const char RTRS_ABI = 1;
EXPORT_SYMBOL_GPL(RTRS_ABI);

static int __init rtrs_core_init(void)
{
	return rtrs_hb_module_init();
}

static void __exit rtrs_core_exit(void)
{
	rtrs_cm_module_exit();
	rtrs_hb_module_exit();
}

module_init(rtrs_core_init);
module_exit(rtrs_core_exit);

MODULE_DESCRIPTION("RTRS, reliable multipath RDMA transport: shared part");
MODULE_AUTHOR("The RNBD authors");
MODULE_VERSION(RNBD_VERSION);
MODULE_INFO(compat, RNBD_COMPAT);
MODULE_LICENSE("GPL");
