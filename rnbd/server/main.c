// SPDX-License-Identifier: GPL-2.0
/*
 * The block server as a module.
 *
 * Load: work queues, sysfs, and last the listener, so that the first client
 * finds everything in place. Unload: first the listener, which ends every
 * session and returns when none is left; then the rest in reverse. The end of
 * a session has waited for all its openings, an opening for all its I/O; what
 * may then still be on its way are the releases of kobjects (debug kernels
 * delay them), which are counted and waited for.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/module.h>
#include <linux/moduleparam.h>
#include <linux/wait_bit.h>

#include "rnbd/server/server.h"

static unsigned short port_nr = RTRS_DEFAULT_PORT;
module_param(port_nr, ushort, 0444);
MODULE_PARM_DESC(port_nr, "port the server listens on (default: 1234)");

char rnbd_search_path[PATH_MAX] = "/";

static int set_search_path(const char *val, const struct kernel_param *kp)
{
	size_t len = strlen(val);

	if (len >= sizeof(rnbd_search_path)) {
		pr_err("dev_search_path: longer than %zu characters\n",
		       sizeof(rnbd_search_path) - 1);
		return -EINVAL;
	}
	if (len && val[len - 1] == '\n')
		len--;
	memcpy(rnbd_search_path, val, len);
	rnbd_search_path[len] = '\0';
	return 0;
}

static const struct kernel_param_ops search_path_ops = {
	.set = set_search_path,
	.get = param_get_string,
};

static struct kparam_string search_path_param = {
	.maxlen = sizeof(rnbd_search_path),
	.string = rnbd_search_path,
};

module_param_cb(dev_search_path, &search_path_ops, &search_path_param, 0444);
MODULE_PARM_DESC(dev_search_path,
		 "directory below which clients' device names are looked up; %SESSNAME% in it stands for the session's name (default: /)");

struct workqueue_struct *rnbd_admin_wq;
static struct rtrs_server *server;

/* Objects whose last reference is dropped by a kobject's release */
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

static const struct rtrs_server_ops server_ops = {
	.op_priv_size	= sizeof(struct rnbd_server_op),
	.max_usr_len	= sizeof(struct rnbd_wire_open),
	.connected	= rnbd_session_connected,
	.disconnected	= rnbd_session_disconnected,
	.request	= rnbd_session_request,
};

static int __init rnbd_server_init(void)
{
	int err = -ENOMEM;

	/* Disks may hang; they must not hold up others. */
	rnbd_admin_wq = alloc_workqueue("rnbd_server_admin",
					WQ_UNBOUND | WQ_MEM_RECLAIM,
					WQ_MAX_ACTIVE);
	if (!rnbd_admin_wq)
		return err;
	err = rnbd_sysfs_create();
	if (err) {
		pr_err("no sysfs nodes: %pe\n", ERR_PTR(err));
		goto wait_objects;
	}
	server = rtrs_server_open(&server_ops, port_nr);
	if (IS_ERR(server)) {
		err = PTR_ERR(server);
		pr_err("cannot listen on port %u: %pe\n", port_nr, server);
		goto destroy_sysfs;
	}
	return 0;

destroy_sysfs:
	rnbd_sysfs_destroy();
wait_objects:
	wait_var_event(&objects, !atomic_read(&objects));
	destroy_workqueue(rnbd_admin_wq);
	return err;
}

static void __exit rnbd_server_exit(void)
{
	rtrs_server_close(server);
	rnbd_sysfs_destroy();
	wait_var_event(&objects, !atomic_read(&objects));
	destroy_workqueue(rnbd_admin_wq);
}

RTRS_NEEDS_ABI;

module_init(rnbd_server_init);
module_exit(rnbd_server_exit);

MODULE_DESCRIPTION("RNBD server: exports block devices over RDMA");
MODULE_AUTHOR("The RNBD authors");
MODULE_LICENSE("GPL");
MODULE_VERSION(RNBD_VERSION);
MODULE_INFO(compat, RNBD_COMPAT);
