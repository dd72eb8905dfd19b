// SPDX-License-Identifier: GPL-2.0
/*
 * rtrs-client: module parameters, load and unload.
 *
 * Two work queues, because they wait for different things.  Recovery must make
 * progress under memory pressure: requests of a lost path are completed there.
 * Connecting may sit out the CM's time limits and must not hold recovery up.
 * Unloading is possible only when no user of the module is left, hence no
 * session, no path and no work.  Memory that a release function of ours frees may
 * be left (somebody else still has a reference, debug kernels delay releases): it
 * is counted and waited for.
 */
#include <linux/cpumask.h>
#include <linux/minmax.h>
#include <linux/module.h>
#include <linux/wait_bit.h>

#include "client.h"

struct workqueue_struct *client_recovery_wq;
struct workqueue_struct *client_refill_wq;
struct workqueue_struct *client_connect_wq;

static unsigned int max_queues;
module_param(max_queues, uint, 0444);
MODULE_PARM_DESC(max_queues,
		 "I/O connections of a path; 0: one per CPU (default)");

static unsigned int write_copybreak = SZ_4K;
module_param(write_copybreak, uint, 0444);
MODULE_PARM_DESC(write_copybreak,
		 "Writes up to so many bytes are copied (default 4096, at most 65536)");

static unsigned int read_copybreak = SZ_4K;
module_param(read_copybreak, uint, 0444);
MODULE_PARM_DESC(read_copybreak,
		 "Reads up to so many bytes are copied (default 4096, at most 65536)");

unsigned int client_hb_interval_ms = RTRS_HB_INTERVAL_MS;
module_param_named(heartbeat_interval_ms, client_hb_interval_ms, uint, 0644);
MODULE_PARM_DESC(heartbeat_interval_ms,
		 "Time between two looks at a silent server, used by the next connect (default 5000)");

unsigned int client_hb_max_missed = RTRS_HB_MAX_MISSED;
module_param_named(heartbeat_max_missed, client_hb_max_missed, uint, 0644);
MODULE_PARM_DESC(heartbeat_max_missed,
		 "Looks without a sign of life that are tolerated, used by the next connect (default 5)");

/* Sessions and paths: what a release function will free */
static atomic_t objects = ATOMIC_INIT(0);

/**
 * client_object_get() - count an object that a release function will free
 */
void client_object_get(void)
{
	atomic_inc(&objects);
}

/**
 * client_object_put() - the object is freed
 *
 * Context: any.
 */
void client_object_put(void)
{
	if (atomic_dec_and_test(&objects))
		wake_up_var(&objects);
}

/* Interrupt-driven I/O connections of a path */
u32 client_queues(void)
{
	u32 n = min_t(u32, nr_cpu_ids, RTRS_MAX_CONNS / 2);

	return max_queues ? min(max_queues, n) : n;
}

u32 client_copybreak(bool write)
{
	return min_t(u32, write ? write_copybreak : read_copybreak,
		     CLIENT_MAX_COPY);
}

static int __init rtrs_client_init(void)
{
	int err = -ENOMEM;

	client_recovery_wq = alloc_workqueue("rtrs_client_wq",
					     WQ_UNBOUND | WQ_MEM_RECLAIM, 0);
	if (!client_recovery_wq)
		return err;
	client_connect_wq = alloc_workqueue("rtrs_client_connect_wq",
					    WQ_UNBOUND | WQ_MEM_RECLAIM, 0);
	if (!client_connect_wq)
		goto destroy_recovery;
	client_refill_wq = alloc_workqueue("rtrs_client_refill_wq",
					   WQ_UNBOUND | WQ_MEM_RECLAIM, 0);
	if (!client_refill_wq)
		goto destroy_connect;
	err = client_sysfs_init();
	if (err)
		goto destroy_refill;
	return 0;

destroy_refill:
	destroy_workqueue(client_refill_wq);
destroy_connect:
	destroy_workqueue(client_connect_wq);
destroy_recovery:
	destroy_workqueue(client_recovery_wq);
	return err;
}

static void __exit rtrs_client_exit(void)
{
	wait_var_event(&objects, !atomic_read(&objects));
	client_sysfs_exit();
	destroy_workqueue(client_refill_wq);
	destroy_workqueue(client_connect_wq);
	destroy_workqueue(client_recovery_wq);
}

RTRS_NEEDS_ABI;

module_init(rtrs_client_init);
module_exit(rtrs_client_exit);

MODULE_DESCRIPTION("RTRS, reliable multipath RDMA transport: client");
MODULE_AUTHOR("The RNBD authors");
MODULE_VERSION(RNBD_VERSION);
MODULE_INFO(compat, RNBD_COMPAT);
MODULE_LICENSE("GPL");
