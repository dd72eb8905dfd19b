// SPDX-License-Identifier: GPL-2.0
/*
 * The module.  Disks that are open pin it, so does an unmap under way.  Unload,
 * in this order: map_device goes and maps under way end; all transports are
 * closed; all devices are unmapped by force, the last one of a session ends
 * that; then what load has made.  Memory that a release function of ours frees
 * (a disk's last user may be slow, debug kernels delay releases) is counted and
 * waited for.
 */
#include "rnbd/client/client.h"

#include <linux/module.h>
#include <linux/wait_bit.h>

#include "compat/core.h"

/* For what may wait for a server, and for what must not wait for that */
struct workqueue_struct *rnbd_wq;
struct workqueue_struct *rnbd_timer_wq;
int rnbd_major;

/* Devices and ctl: what a release function will free */
static atomic_t objects = ATOMIC_INIT(0);

/**
 * rnbd_object_get() - count an object that a release function will free
 */
void rnbd_object_get(void)
{
	atomic_inc(&objects);
}

/**
 * rnbd_object_put() - the object is freed
 *
 * Context: any.
 */
void rnbd_object_put(void)
{
	if (atomic_dec_and_test(&objects))
		wake_up_var(&objects);
}

static void rnbd_objects_wait(void)
{
	wait_var_event(&objects, !atomic_read(&objects));
}

static int __init rnbd_client_init(void)
{
	int err = -ENOMEM;

	rnbd_wq = alloc_workqueue("rnbd_clt_wq", WQ_UNBOUND | WQ_MEM_RECLAIM,
				  WQ_MAX_ACTIVE);
	if (!rnbd_wq)
		return err;
	rnbd_timer_wq = alloc_workqueue("rnbd_clt_timer_wq",
					WQ_UNBOUND | WQ_MEM_RECLAIM, 0);
	if (!rnbd_timer_wq)
		goto err_wq;
	rnbd_major = register_blkdev(0, "rnbd");
	if (rnbd_major < 0) {
		err = rnbd_major;
		goto err_timer_wq;
	}
	err = rnbd_sysfs_init();
	if (err)
		goto err_sysfs;
	return 0;

err_sysfs:
	rnbd_objects_wait();
	unregister_blkdev(rnbd_major, "rnbd");
err_timer_wq:
	destroy_workqueue(rnbd_timer_wq);
err_wq:
	destroy_workqueue(rnbd_wq);
	return err;
}

static void __exit rnbd_client_exit(void)
{
	rnbd_sysfs_stop_mapping();
	rnbd_unmap_all();
	rnbd_sysfs_exit();
	rnbd_objects_wait();
	unregister_blkdev(rnbd_major, "rnbd");
	destroy_workqueue(rnbd_timer_wq);
	destroy_workqueue(rnbd_wq);
}

RTRS_NEEDS_ABI;

module_init(rnbd_client_init);
module_exit(rnbd_client_exit);

MODULE_AUTHOR("The RNBD authors");
MODULE_DESCRIPTION("RNBD client: block devices of a remote server over RDMA");
MODULE_LICENSE("GPL");
MODULE_VERSION(RNBD_VERSION);
MODULE_INFO(compat, RNBD_COMPAT);
