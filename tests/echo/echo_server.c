// SPDX-License-Identifier: GPL-2.0
/*
 * Keeps what clients send in memory, one drawer for each of a session's
 * requests, and sends it back when asked.
 *
 * GET and FAIL are answered inside the request callback, PUT by a work item:
 * both ways of rtrs.h are used.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/highmem.h>
#include <linux/module.h>
#include <linux/slab.h>
#include <linux/workqueue.h>

#include "rtrs/rtrs.h"
#include "echo.h"

struct echo_drawer {
	void	*data;
	u32	len;
};

struct echo_session {
	u32			nr_drawers;
	struct echo_drawer	drawer[];
};

/* rtrs_op_priv() of an operation */
struct echo_work {
	struct work_struct	work;
	struct rtrs_op		*op;
	struct echo_drawer	*drawer;
};

static struct workqueue_struct *echo_wq;
static struct rtrs_server *echo_server;

/* Copy between an operation's data and memory. */
static void echo_copy(struct rtrs_op *op, void *mem, bool to_mem)
{
	unsigned int i;

	for (i = 0; i < op->nr_bvecs; i++) {
		struct bio_vec *bv = &op->bvec[i];
		struct page *page = bv->bv_page + bv->bv_offset / PAGE_SIZE;
		size_t offset = bv->bv_offset % PAGE_SIZE;
		size_t left = bv->bv_len;

		while (left) {
			size_t part = min_t(size_t, left, PAGE_SIZE - offset);

			if (to_mem)
				memcpy_from_page(mem, page, offset, part);
			else
				memcpy_to_page(page, offset, mem, part);
			mem += part;
			left -= part;
			offset = 0;
			page++;
		}
	}
}

static void echo_put(struct work_struct *work)
{
	struct echo_work *put = container_of(work, struct echo_work, work);
	struct echo_drawer *drawer = put->drawer;
	struct rtrs_op *op = put->op;

	kvfree(drawer->data);
	drawer->len = op->data_len;
	drawer->data = kvmalloc(max(op->data_len, 1U), GFP_KERNEL);
	if (!drawer->data) {
		rtrs_op_respond(op, -ENOMEM);
		return;
	}
	echo_copy(op, drawer->data, true);
	rtrs_op_respond(op, 0);
}

static int echo_request(void *priv, struct rtrs_op *op)
{
	struct echo_work *put = rtrs_op_priv(op);
	struct echo_session *sess = priv;
	const struct echo_msg *msg = op->usr;
	struct echo_drawer *drawer;
	u16 arg;

	if (op->usr_len < ECHO_MSG_MIN || le32_to_cpu(msg->len) != op->data_len)
		return -EBADMSG;
	arg = le16_to_cpu(msg->arg);
	if (le16_to_cpu(msg->op) == ECHO_FAIL)
		return -(int)arg;
	if (arg >= sess->nr_drawers)
		return -ERANGE;
	drawer = &sess->drawer[arg];
	switch (le16_to_cpu(msg->op)) {
	case ECHO_PUT:
		if (op->dir != RTRS_DIR_WRITE)
			return -EBADMSG;
		INIT_WORK(&put->work, echo_put);
		put->op = op;
		put->drawer = drawer;
		queue_work(echo_wq, &put->work);
		return 0;
	case ECHO_GET:
		if (op->dir != RTRS_DIR_READ || drawer->len != op->data_len)
			return -EBADMSG;
		echo_copy(op, drawer->data, false);
		rtrs_op_respond(op, 0);
		return 0;
	}
	return -EOPNOTSUPP;
}

static int echo_connected(struct rtrs_server_session *rtrs, void **priv)
{
	u32 depth = rtrs_server_session_depth(rtrs);
	struct echo_session *sess = kvzalloc(struct_size(sess, drawer, depth), GFP_KERNEL);

	if (!sess)
		return -ENOMEM;
	sess->nr_drawers = depth;
	*priv = sess;
	pr_info("%s has connected, %u drawers\n", rtrs_server_session_name(rtrs), depth);
	return 0;
}

static void echo_disconnected(void *priv)
{
	struct echo_session *sess = priv;
	u32 i;

	for (i = 0; i < sess->nr_drawers; i++)
		kvfree(sess->drawer[i].data);
	kvfree(sess);
}

static const struct rtrs_server_ops echo_ops = {
	.op_priv_size	= sizeof(struct echo_work),
	.max_usr_len	= sizeof(struct echo_msg),
	.connected	= echo_connected,
	.disconnected	= echo_disconnected,
	.request	= echo_request,
};

static int __init echo_server_init(void)
{
	echo_wq = alloc_workqueue("rtrs_echo", WQ_UNBOUND, 0);
	if (!echo_wq)
		return -ENOMEM;
	echo_server = rtrs_server_open(&echo_ops, ECHO_PORT);
	if (IS_ERR(echo_server)) {
		destroy_workqueue(echo_wq);
		return PTR_ERR(echo_server);
	}
	return 0;
}

static void __exit echo_server_exit(void)
{
	rtrs_server_close(echo_server);
	destroy_workqueue(echo_wq);
}

module_init(echo_server_init);
module_exit(echo_server_exit);

MODULE_DESCRIPTION("RTRS echo server, for tests");
MODULE_LICENSE("GPL");
