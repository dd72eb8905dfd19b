// SPDX-License-Identifier: GPL-2.0
/*
 * The module.  Disks that are open pin it, so does an unmap under way.  Unload,
 * in this order: map_device goes and maps under way end; all transports are
 * closed; all devices are unmapped by force, the last one of a session ends
 * that; the memory of the last device is awaited; then what load has made.
 */
#include "rnbd/client/client.h"

#include <linux/module.h>

#include "compat/core.h"

struct workqueue_struct *rnbd_wq;
int rnbd_major;

static int __init rnbd_client_init(void)
{
	int err;

	rnbd_wq = alloc_workqueue("rnbd_clt_wq", WQ_UNBOUND | WQ_MEM_RECLAIM, 0);
	if (!rnbd_wq)
		return -ENOMEM;
	rnbd_major = register_blkdev(0, "rnbd");
	if (rnbd_major < 0) {
		err = rnbd_major;
		goto err_wq;
	}
	err = rnbd_sysfs_init();
	if (err)
		goto err_major;
	return 0;

err_major:
	unregister_blkdev(rnbd_major, "rnbd");
err_wq:
	destroy_workqueue(rnbd_wq);
	return err;
}

static void __exit rnbd_client_exit(void)
{
	rnbd_sysfs_stop_mapping();
	rnbd_unmap_all();
	rnbd_dev_wait_all_gone();
	rnbd_sysfs_exit();
	unregister_blkdev(rnbd_major, "rnbd");
	destroy_workqueue(rnbd_wq);
}

module_init(rnbd_client_init);
module_exit(rnbd_client_exit);

MODULE_AUTHOR("The RNBD authors");
MODULE_DESCRIPTION("RNBD client: block devices of a remote server over RDMA");
MODULE_LICENSE("GPL");
MODULE_VERSION(RNBD_VERSION);
MODULE_INFO(compat, RNBD_COMPAT);
