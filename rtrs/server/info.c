// SPDX-License-Identifier: GPL-2.0
/*
 * The INFO exchange, by which a path becomes usable, and its heartbeat.
 *
 * INFO_REQ lands in a buffer that is posted on the service connection before
 * that is accepted.  Its completion queues info_work, which runs in process
 * context, under path.setup, once or, as long as operations of lost paths are in
 * the way (fence.c), several times.  At last the path is CONNECTED and INFO_RSP
 * is on its way, or the path is closing.  There is no other answer to a bad
 * INFO_REQ.
 *
 * Now that the client has shown that it means it, memory is allocated.  Keys are
 * valid before INFO_RSP is posted, the user knows the session before the state
 * is CONNECTED, and the state is CONNECTED before INFO_RSP is posted: a client
 * may send requests as soon as it has seen that.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/mm.h>
#include <linux/slab.h>

#include "server.h"

#define INFO_REQ_SIZE	sizeof(struct rtrs_wire_info_req)

static void info_req_done(struct ib_cq *cq, struct ib_wc *wc)
{
	struct server_path *path = container_of(wc->wr_cqe, struct server_path,
						info_cqe);

	if (wc->status != IB_WC_SUCCESS) {
		server_path_close(path, wc->status == IB_WC_LOC_LEN_ERR ?
				  "INFO_REQ is too long" :
				  ib_wc_status_msg(wc->status));
		return;
	}
	if (wc->opcode != IB_WC_RECV) {
		server_path_close(path, "the first message is not INFO_REQ");
		return;
	}
	rtrs_conn_alive(&path->conns[0]->base);
	path->info_len = wc->byte_len;
	/* The close work waits for it after this connection is drained. */
	queue_delayed_work(server_info_wq, &path->info_work, 0);
}

/**
 * server_info_post() - get ready for INFO_REQ
 * @path:	has its service connection, which is not accepted yet
 *
 * Context: process context, sleeps.
 * Return: 0, -ENOMEM or what the device said.
 */
int server_info_post(struct server_path *path)
{
	struct rtrs_conn *conn = &path->conns[0]->base;
	struct ib_device *dev = path->dom->base.dev;
	struct ib_recv_wr wr = {};
	struct ib_sge sge;

	path->info_req = kzalloc(INFO_REQ_SIZE, GFP_KERNEL);
	if (!path->info_req)
		return -ENOMEM;
	path->info_dma = ib_dma_map_single(dev, path->info_req, INFO_REQ_SIZE,
					   DMA_FROM_DEVICE);
	if (ib_dma_mapping_error(dev, path->info_dma)) {
		kfree(path->info_req);
		path->info_req = NULL;
		return -ENOMEM;
	}
	path->info_cqe.done = info_req_done;
	sge.addr = path->info_dma;
	sge.length = INFO_REQ_SIZE;
	sge.lkey = path->dom->base.pd->local_dma_lkey;
	wr.wr_cqe = &path->info_cqe;
	wr.sg_list = &sge;
	wr.num_sge = 1;
	return ib_post_recv(conn->qp, &wr, NULL);
}

static void free_req(struct server_path *path)
{
	if (!path->info_req)
		return;
	ib_dma_unmap_single(path->dom->base.dev, path->info_dma, INFO_REQ_SIZE,
			    DMA_FROM_DEVICE);
	kfree(path->info_req);
	path->info_req = NULL;
}

static void free_rsp(struct server_path *path)
{
	if (!path->rsp)
		return;
	ib_dma_unmap_single(path->dom->base.dev, path->rsp_dma, path->rsp_len,
			    DMA_TO_DEVICE);
	kfree(path->rsp);
	path->rsp = NULL;
}

/**
 * server_info_free() - free what the exchange has left
 * @path:	its connections are drained, its info_work has been cancelled
 */
void server_info_free(struct server_path *path)
{
	free_req(path);
	free_rsp(path);
}

static void info_rsp_done(struct ib_cq *cq, struct ib_wc *wc)
{
	struct server_path *path = container_of(wc->wr_cqe, struct server_path,
						rsp_cqe);

	if (wc->status != IB_WC_SUCCESS) {
		server_path_close(path, ib_wc_status_msg(wc->status));
		return;
	}
	rtrs_conn_sent(&path->conns[0]->base);
	free_rsp(path);
}

static void regs_done(struct ib_cq *cq, struct ib_wc *wc)
{
	struct server_path *path = container_of(wc->wr_cqe, struct server_path,
						reg_cqe);

	if (wc->status != IB_WC_SUCCESS) {
		server_path_close(path, "memory could not be registered");
		return;
	}
	rtrs_conn_sent(&path->conns[0]->base);
	/* Pairs with the acquire in register_batch(). */
	smp_store_release(&path->registered, true);
	wake_up(&path->wait);
}

/* INFO_RSP, laid out and mapped */
static int prepare_rsp(struct server_path *path)
{
	struct ib_device *dev = path->dom->base.dev;
	struct rtrs_wire_info_rsp *msg;
	u32 i;

	path->rsp_len = rtrs_info_rsp_size(path->nr_mrs);
	msg = kzalloc(path->rsp_len, GFP_KERNEL);
	if (!msg)
		return -ENOMEM;
	rtrs_info_rsp_encode(msg, path->nr_mrs);
	for (i = 0; i < path->nr_mrs; i++) {
		struct rtrs_desc desc = {
			.addr	= path->mr[i]->iova,
			.key	= path->mr[i]->rkey,
			.len	= path->mr_chunks * path->sess->chunk_size,
		};

		rtrs_desc_encode(&msg->desc[i], &desc);
	}
	path->rsp_dma = ib_dma_map_single(dev, msg, path->rsp_len,
					  DMA_TO_DEVICE);
	if (ib_dma_mapping_error(dev, path->rsp_dma)) {
		kfree(msg);
		return -ENOMEM;
	}
	path->rsp = msg;
	return 0;
}

static int send_rsp(struct server_path *path)
{
	struct rtrs_conn *conn = &path->conns[0]->base;
	struct ib_sge sge = {
		.addr	= path->rsp_dma,
		.length	= path->rsp_len,
		.lkey	= path->dom->base.pd->local_dma_lkey,
	};
	struct ib_send_wr wr = {
		.wr_cqe		= &path->rsp_cqe,
		.opcode		= IB_WR_SEND,
		.send_flags	= IB_SEND_SIGNALED,
		.sg_list	= &sge,
		.num_sge	= 1,
	};

	path->rsp_cqe.done = info_rsp_done;
	return rtrs_conn_send(conn, &wr, &wr, 1, true);
}

static int post_receives(struct server_path *path)
{
	struct server_conn *conn;
	u16 cid;
	int err;

	for (cid = 0; cid < path->cid_num; cid++) {
		conn = path->conns[cid];
		err = rtrs_conn_post_recv_empty(&conn->base, &conn->recv_cqe,
						conn->nr_recv);
		if (err)
			return err;
	}
	return 0;
}

/* Says in words why the path cannot be used, or returns NULL. */
static const char *check_req(struct server_path *path)
{
	char name[RTRS_NAME_LEN];

	ib_dma_sync_single_for_cpu(path->dom->base.dev, path->info_dma,
				   INFO_REQ_SIZE, DMA_FROM_DEVICE);
	switch (rtrs_info_req_decode(path->info_req, path->info_len, name)) {
	case 0:
		break;
	case -EMSGSIZE:
		return "INFO_REQ is too short";
	case -EPROTO:
		return "the first message is not INFO_REQ";
	default:
		return "the session name is empty, too long or not printable";
	}
	if (path->nr_conns != path->cid_num)
		return "INFO_REQ came before all connections";
	switch (server_session_set_name(path->sess, name)) {
	case 0:
		return NULL;
	case -EEXIST:
		path_info(path, "another session is called %s\n", name);
		return "the session name is in use";
	default:
		path_info(path, "this path calls the session %s\n", name);
		return "the session has another name";
	}
}

/* Everything that takes memory, and can be done while old operations run. */
static const char *allocate(struct server_path *path)
{
	struct rtrs_server_session *sess = path->sess;

	if (server_session_build(sess, ibdev_to_node(path->dom->base.dev)))
		return "no memory for the session";
	if (server_domain_map(sess, path->dom))
		return "no memory for the device's view of the session";
	if (server_mr_alloc(path))
		return "no memory regions";
	return NULL;
}

static const char *start(struct server_path *path)
{
	path->reg_cqe.done = regs_done;
	if (post_receives(path))
		return "receives could not be posted";
	if (server_mr_register(path))
		return "memory could not be registered";
	if (prepare_rsp(path))
		return "no memory for INFO_RSP";
	if (server_sysfs_add(path))
		return "no directory in sysfs";
	if (server_session_up(path))
		return "the session was refused";
	return NULL;
}

/* The first run of the work: returns what is wrong with the path. */
static const char *prepare(struct server_path *path)
{
	const char *why = check_req(path);

	mod_delayed_work(server_wq, &path->handshake,
			 msecs_to_jiffies(SERVER_HANDSHAKE_MS));
	if (!why)
		why = allocate(path);
	if (why)
		return why;
	/* The client has done its part; what is left must end all the same. */
	mod_delayed_work(server_wq, &path->handshake,
			 msecs_to_jiffies(SERVER_FENCE_MS +
					  SERVER_HANDSHAKE_MS));
	server_fence_raise(path);
	path->fenced = true;
	return NULL;
}

static void send_ack(struct server_path *path)
{
	rtrs_conn_send_imm(&path->conns[0]->base, rtrs_imm(RTRS_IMM_HB_ACK, 0));
}

static void connected(struct server_path *path)
{
	bool up, ack;

	spin_lock_irq(&path->lock);
	up = server_path_move(path, SERVER_CONNECTED);
	spin_unlock_irq(&path->lock);
	if (!up)
		return;
	path_info(path, "connected, %u connections\n", path->cid_num);
	if (send_rsp(path)) {
		server_path_close(path, "INFO_RSP could not be sent");
		return;
	}
	spin_lock_irq(&path->lock);
	path->answered = true;
	ack = path->owes_ack;
	spin_unlock_irq(&path->lock);
	if (ack)
		send_ack(path);
	cancel_delayed_work(&path->handshake);
	rtrs_hb_start(&path->hb);
}

/**
 * server_info_work() - work function of server_path.info_work
 * @work:	the work
 *
 * Runs again as long as the fence is in the way.
 */
void server_info_work(struct work_struct *work)
{
	struct server_path *path = container_of(work, struct server_path,
						info_work.work);
	const char *why = NULL;
	int err;

	mutex_lock(&path->setup);
	if (READ_ONCE(path->state) != SERVER_CONNECTING)
		goto unlock;
	if (!path->fenced)
		why = prepare(path);
	if (!why) {
		err = server_fence_check(path);
		if (err == -EAGAIN)
			goto unlock;
		if (err)
			why = "operations of lost paths have not ended";
		else if (server_fence_pass(path))
			why = "no memory for second chunks";
		else
			why = start(path);
	}
	if (why)
		server_path_close(path, why);
	else
		connected(path);
unlock:
	mutex_unlock(&path->setup);
}

/*
 * Heartbeat
 */

/**
 * server_hb_received() - the client wants to know whether we are there
 * @path:	the path
 *
 * Old clients ask before INFO_RSP, and never again if there is no answer.  But
 * that must be the first message; and what has to wait for the client must not
 * get into the send queue before the registrations, which nobody watches.
 *
 * Context: completion handler of the service connection.
 */
void server_hb_received(struct server_path *path)
{
	unsigned long flags;
	bool now;

	spin_lock_irqsave(&path->lock, flags);
	now = path->answered;
	if (!now)
		path->owes_ack = true;
	spin_unlock_irqrestore(&path->lock, flags);
	if (now)
		send_ack(path);
}

static struct rtrs_conn *hb_conn(struct rtrs_hb *hb, unsigned int cid)
{
	struct server_path *path = container_of(hb, struct server_path, hb);

	return cid < path->cid_num ? &path->conns[cid]->base : NULL;
}

static void hb_send(struct rtrs_hb *hb)
{
	struct server_path *path = container_of(hb, struct server_path, hb);

	/* With a full send queue there is enough for the client to see. */
	rtrs_conn_send_imm(&path->conns[0]->base, rtrs_imm(RTRS_IMM_HB_MSG, 0));
}

static void hb_dead(struct rtrs_hb *hb)
{
	server_path_close(container_of(hb, struct server_path, hb),
			  "nothing heard from the client");
}

const struct rtrs_hb_ops server_hb_ops = {
	.conn	= hb_conn,
	.send	= hb_send,
	.dead	= hb_dead,
};
