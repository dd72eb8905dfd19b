// SPDX-License-Identifier: GPL-2.0
/*
 * rtrs-server: parameters, loading and unloading.
 *
 * Nothing happens until a user calls rtrs_server_open(), and a user that is
 * open keeps the module by its use of our symbols.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/module.h>
#include <compat/core.h>

#include "server.h"

/* 128 KiB of data in one request, and room for its header */
#define CHUNK_DEFAULT	(131072 + SERVER_HDR_SIZE)
/* For depths at which the immediate cannot address that */
#define CHUNK_DEEP	131072

struct server_config server_config;
struct workqueue_struct *server_wq;
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
		 "Large private buffers of a session with always_invalidate, 0 to 1024 (default 32)");

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

static int check_params(void)
{
	if (sess_queue_depth < 1 || sess_queue_depth > RTRS_MAX_DEPTH) {
		pr_err("sess_queue_depth=%d is not between 1 and %d\n",
		       sess_queue_depth, RTRS_MAX_DEPTH);
		return -EINVAL;
	}
	if (private_buffers < 0 || private_buffers > 1024) {
		pr_err("private_buffers=%d is not between 0 and 1024\n",
		       private_buffers);
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
	server_config.depth = sess_queue_depth;
	server_config.chunk_size = max_chunk_size;
	server_config.always_invalidate = always_invalidate;
	server_config.nr_spares = private_buffers;
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
	server_path_wq = alloc_workqueue("rtrs_server_path_wq", WQ_UNBOUND, 0);
	if (!server_path_wq) {
		err = -ENOMEM;
		goto destroy_wq;
	}
	err = server_sysfs_init();
	if (err)
		goto destroy_path_wq;
	return 0;

destroy_path_wq:
	destroy_workqueue(server_path_wq);
destroy_wq:
	destroy_workqueue(server_wq);
	return err;
}

static void __exit rtrs_server_exit(void)
{
	server_sysfs_exit();
	destroy_workqueue(server_path_wq);
	destroy_workqueue(server_wq);
}

module_init(rtrs_server_init);
module_exit(rtrs_server_exit);

MODULE_DESCRIPTION("RTRS, reliable multipath RDMA transport: server");
MODULE_AUTHOR("The RNBD authors");
MODULE_VERSION(RNBD_VERSION);
MODULE_INFO(compat, RNBD_COMPAT);
MODULE_LICENSE("GPL");
