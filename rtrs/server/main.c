// SPDX-License-Identifier: GPL-2.0
/*
 * rtrs-server: parameters, loading and unloading.
 *
 * Nothing happens until a user calls rtrs_server_open(), and a user that is
 * open keeps the module by its use of our symbols.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/mm.h>
#include <linux/module.h>
#include <compat/core.h>

#include "server.h"

/* 128 KiB of data in one request, and room for its header */
#define CHUNK_DEFAULT	(131072 + SERVER_HDR_SIZE)
/* For depths at which the immediate cannot address that */
#define CHUNK_DEEP	131072

struct server_config server_config;
struct workqueue_struct *server_wq;
struct workqueue_struct *server_connect_wq;
struct workqueue_struct *server_info_wq;
struct workqueue_struct *server_path_wq;

static int sess_queue_depth = 512;
module_param(sess_queue_depth, int, 0444);
MODULE_PARM_DESC(sess_queue_depth,
		 "Requests a session can have outstanding, 1 to 65535 (default 512)");

static bool always_invalidate = true;
module_param(always_invalidate, bool, 0444);
MODULE_PARM_DESC(always_invalidate,
		 "No client can change a request that is being processed (default Y)");

static int private_buffers = 32;
module_param(private_buffers, int, 0444);
MODULE_PARM_DESC(private_buffers,
		 "Large private buffers a session with always_invalidate begins with, 0 to 1024 (default 32)");

unsigned int server_max_sessions = 1024;
module_param_named(max_sessions, server_max_sessions, uint, 0644);
MODULE_PARM_DESC(max_sessions, "Sessions there can be (default 1024)");

unsigned int server_max_paths = RTRS_MAX_PATHS;
module_param_named(max_paths, server_max_paths, uint, 0644);
MODULE_PARM_DESC(max_paths, "Paths of a session, at most 128 (default 128)");

unsigned int server_max_conns = 1024;
module_param_named(max_connections, server_max_conns, uint, 0644);
MODULE_PARM_DESC(max_connections,
		 "Connections of a path, at most 4096 (default 1024)");

static unsigned int max_memory;
module_param(max_memory, uint, 0644);
MODULE_PARM_DESC(max_memory,
		 "MiB that all clients together can claim; 0: half of the machine's memory (default)");

unsigned int server_hb_interval_ms = RTRS_HB_INTERVAL_MS;
module_param_named(heartbeat_interval_ms, server_hb_interval_ms, uint, 0644);
MODULE_PARM_DESC(heartbeat_interval_ms,
		 "Time between two looks at a silent client, used by new paths (default 5000)");

unsigned int server_hb_max_missed = RTRS_HB_MAX_MISSED;
module_param_named(heartbeat_max_missed, server_hb_max_missed, uint, 0644);
MODULE_PARM_DESC(heartbeat_max_missed,
		 "Looks without a sign of life that are tolerated, used by new paths (default 5)");

/* Reads back what is in effect. */
static int max_chunk_size;
static bool max_chunk_size_set;

static int set_chunk_size(const char *val, const struct kernel_param *kp)
{
	max_chunk_size_set = true;
	return param_set_int(val, kp);
}

static const struct kernel_param_ops chunk_size_ops = {
	.set	= set_chunk_size,
	.get	= param_get_int,
};

module_param_cb(max_chunk_size, &chunk_size_ops, &max_chunk_size, 0444);
MODULE_PARM_DESC(max_chunk_size,
		 "Bytes of a request with its header, a power of two from 8192 to 4194304 (default 135168, or 131072 with more than 1024 requests)");

/**
 * server_memory_limit() - what clients may claim
 *
 * Context: any.
 * Return: bytes.
 */
u64 server_memory_limit(void)
{
	u64 mib = READ_ONCE(max_memory);

	return mib ? mib << 20 : (u64)totalram_pages() << PAGE_SHIFT >> 1;
}

static int check_geometry(void)
{
	if (sess_queue_depth < 1 || sess_queue_depth > RTRS_MAX_DEPTH) {
		pr_err("sess_queue_depth=%d is not between 1 and %d\n",
		       sess_queue_depth, RTRS_MAX_DEPTH);
		return -EINVAL;
	}
	if (!max_chunk_size_set)
		max_chunk_size = rtrs_geometry_ok(sess_queue_depth,
						  CHUNK_DEFAULT) ?
				 CHUNK_DEFAULT : CHUNK_DEEP;
	else if (max_chunk_size < RTRS_MIN_CHUNK ||
		 max_chunk_size > SERVER_MAX_CHUNK ||
		 !is_power_of_2(max_chunk_size)) {
		pr_err("max_chunk_size=%d is not a power of two from %d to %d\n",
		       max_chunk_size, RTRS_MIN_CHUNK, SERVER_MAX_CHUNK);
		return -EINVAL;
	}
	if (!rtrs_geometry_ok(sess_queue_depth, max_chunk_size)) {
		pr_err("sess_queue_depth=%d with max_chunk_size=%d is more than a request can address; lower one of them\n",
		       sess_queue_depth, max_chunk_size);
		return -EINVAL;
	}
	return 0;
}

static void set_config(void)
{
	struct server_config *cfg = &server_config;
	u32 max_io_size = max_chunk_size - SERVER_HDR_SIZE;

	cfg->depth = sess_queue_depth;
	cfg->chunk_size = max_chunk_size;
	cfg->always_invalidate = always_invalidate;
	if (!always_invalidate)
		return;
	cfg->small_size = min(SERVER_SMALL_SIZE, max_io_size);
	if (max_io_size > cfg->small_size)
		/* Whoever waits for one must be sure that there is one. */
		cfg->nr_spares = clamp_t(u32, private_buffers, 1, cfg->depth);
}

static int check_params(void)
{
	int err = check_geometry();
	u64 bytes;

	if (err)
		return err;
	if (private_buffers < 0 || private_buffers > 1024) {
		pr_err("private_buffers=%d is not between 0 and 1024\n",
		       private_buffers);
		return -EINVAL;
	}
	set_config();
	bytes = server_session_claim(&server_config);
	if (bytes > server_memory_limit()) {
		pr_err("sess_queue_depth=%d with max_chunk_size=%d takes %llu MiB for one session, more than clients may claim (%llu MiB, see max_memory)\n",
		       sess_queue_depth, max_chunk_size, bytes >> 20,
		       server_memory_limit() >> 20);
		return -EINVAL;
	}
	return 0;
}

static int __init rtrs_server_init(void)
{
	int err = check_params();

	if (err)
		return err;
	server_wq = alloc_workqueue("rtrs_server_wq",
				    WQ_UNBOUND | WQ_MEM_RECLAIM, 0);
	if (!server_wq)
		return -ENOMEM;
	/* Destroying a CM id waits for queues that are not for reclaim. */
	server_connect_wq = alloc_workqueue("rtrs_server_connect_wq",
					    WQ_UNBOUND, 0);
	if (!server_connect_wq) {
		err = -ENOMEM;
		goto destroy_wq;
	}
	server_info_wq = alloc_workqueue("rtrs_server_info_wq", WQ_UNBOUND, 0);
	if (!server_info_wq) {
		err = -ENOMEM;
		goto destroy_connect_wq;
	}
	/* Many may be waiting for disks that hang; they must not hold up others. */
	server_path_wq = alloc_workqueue("rtrs_server_path_wq", WQ_UNBOUND,
					 WQ_MAX_ACTIVE);
	if (!server_path_wq) {
		err = -ENOMEM;
		goto destroy_info_wq;
	}
	err = server_sysfs_init();
	if (err)
		goto destroy_path_wq;
	return 0;

destroy_path_wq:
	destroy_workqueue(server_path_wq);
destroy_info_wq:
	destroy_workqueue(server_info_wq);
destroy_connect_wq:
	destroy_workqueue(server_connect_wq);
destroy_wq:
	destroy_workqueue(server_wq);
	return err;
}

static void __exit rtrs_server_exit(void)
{
	server_sysfs_exit();
	destroy_workqueue(server_path_wq);
	destroy_workqueue(server_info_wq);
	destroy_workqueue(server_connect_wq);
	destroy_workqueue(server_wq);
}

RTRS_NEEDS_ABI;

module_init(rtrs_server_init);
module_exit(rtrs_server_exit);

MODULE_DESCRIPTION("RTRS, reliable multipath RDMA transport: server");
MODULE_AUTHOR("The RNBD authors");
MODULE_VERSION(RNBD_VERSION);
MODULE_INFO(compat, RNBD_COMPAT);
MODULE_LICENSE("GPL");
