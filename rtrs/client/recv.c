// SPDX-License-Identifier: GPL-2.0
/*
 * What the server sends: answers, invalidations, keys, heartbeats.
 *
 * Receives belong to their connection.  If the server hands out keys every
 * receive has a buffer of one key message, else none has; a connection never
 * mixes them, and what was consumed is posted again, whatever it carried.  The
 * buffers are allocated while the path connects and freed after it was drained.
 *
 * Handlers run in the context of the completion queue (softirq, or the task
 * that polls), never two at a time for one connection, and do not sleep.
 * Nothing the server sends may do more than end its path: each message is
 * checked against what is in flight, and an answer, an invalidation or a key
 * that nobody waits for is a protocol error.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/mm.h>
#include <linux/slab.h>

#include "client.h"

#define KEY_LEN		sizeof(struct rtrs_wire_rkey_rsp)
#define POST_BATCH	16

static void protocol_error(struct client_conn *conn, const char *what)
{
	client_path_error(conn->path, -EPROTO, "connection %u: %s",
			  conn->base.cid, what);
}

/* Did the answer come where it was expected?  Polling decides by itself. */
static void count_migration(struct client_conn *conn)
{
	if (raw_smp_processor_id() == conn->cpu ||
	    conn->base.poll_ctx == IB_POLL_DIRECT)
		return;
	WRITE_ONCE(conn->migrated, conn->migrated + 1);
	this_cpu_inc(conn->path->stats->migrated_to);
}

static void take_answer(struct client_conn *conn, u32 imm)
{
	int error = 0, err;
	u32 id;

	count_migration(conn);
	err = rtrs_io_rsp_imm_decode(imm, conn->path->clt->depth, &id, &error);
	/* A word of ours: users take it for the end of all paths. */
	if (error == -ECONNABORTED)
		error = -EIO;
	if (err || !client_slot_respond(conn, id, error))
		protocol_error(conn, "answer to a request that is not in flight");
}

/* An immediate that came without data */
static void bare_imm(struct client_conn *conn, u32 imm)
{
	switch (rtrs_imm_type(imm)) {
	case RTRS_IMM_IO_RSP:
	case RTRS_IMM_IO_RSP_INV:
		/* If the server hands out keys, the old one stays good. */
		take_answer(conn, imm);
		break;
	case RTRS_IMM_HB_MSG:
		/* Without room in the send queue there is traffic enough. */
		rtrs_conn_send_imm(&conn->base, rtrs_imm(RTRS_IMM_HB_ACK, 0));
		break;
	case RTRS_IMM_HB_ACK:
		client_path_hb_ack(conn->path);
		break;
	default:
		path_log(warn_ratelimited, conn->path,
			 "unknown immediate 0x%08x ignored", imm);
	}
}

/* An immediate with a key message */
static void keyed_imm(struct client_conn *conn, u32 imm, const void *buf,
		      u32 len)
{
	struct client_path *path = conn->path;
	unsigned int type = rtrs_imm_type(imm);
	u32 id, rkey, imm_id;
	int error;

	if (type != RTRS_IMM_IO_RSP && type != RTRS_IMM_IO_RSP_INV) {
		path_log(warn_ratelimited, path,
			 "message with unknown immediate 0x%08x ignored", imm);
		return;
	}
	if (rtrs_rkey_rsp_decode(buf, len, path->clt->depth, &id, &rkey) ||
	    rtrs_io_rsp_imm_decode(imm, path->clt->depth, &imm_id, &error) ||
	    id != imm_id) {
		protocol_error(conn, "malformed key message");
		return;
	}
	/* Before the answer: the next request of this id needs the key. */
	WRITE_ONCE(path->chunk[id].key, rkey);
	take_answer(conn, imm);
}

/* Whatever came; @buf is NULL for receives without a buffer. */
static void received(struct client_conn *conn, struct ib_wc *wc,
		     const void *buf)
{
	rtrs_conn_alive(&conn->base);
	if (wc->opcode == IB_WC_RECV_RDMA_WITH_IMM) {
		bare_imm(conn, be32_to_cpu(wc->ex.imm_data));
	} else if (wc->opcode != IB_WC_RECV) {
		protocol_error(conn, "unexpected completion");
	} else if (wc->wc_flags & IB_WC_WITH_INVALIDATE) {
		if (!client_slot_invalidated(conn, wc->ex.invalidate_rkey))
			protocol_error(conn, "invalidation nobody asked for");
	} else if (wc->wc_flags & IB_WC_WITH_IMM && buf) {
		keyed_imm(conn, be32_to_cpu(wc->ex.imm_data), buf,
			  wc->byte_len);
	} else {
		protocol_error(conn, "unexpected message");
	}
}

static bool recv_failed(struct client_conn *conn, struct ib_wc *wc)
{
	if (likely(wc->status == IB_WC_SUCCESS))
		return false;
	client_path_error(conn->path, -EIO, "connection %u: receive failed: %s",
			  conn->base.cid, ib_wc_status_msg(wc->status));
	return true;
}

static void empty_done(struct ib_cq *cq, struct ib_wc *wc)
{
	struct client_conn *conn = container_of(wc->wr_cqe, struct client_conn,
						rx_cqe);
	int err;

	if (recv_failed(conn, wc))
		return;
	received(conn, wc, NULL);
	err = rtrs_conn_post_recv_empty(&conn->base, &conn->rx_cqe, 1);
	if (err)
		client_path_error(conn->path, err, "receive not posted");
}

/* Post receives @first to @first + @nr - 1, at most POST_BATCH. */
static int post_keyed(struct client_conn *conn, u32 first, u32 nr)
{
	struct ib_recv_wr wr[POST_BATCH];
	struct ib_sge sge[POST_BATCH];
	u32 i;

	for (i = 0; i < nr; i++) {
		sge[i] = (struct ib_sge){
			.addr	= client_area_dma(&conn->rx_buf, first + i),
			.length	= KEY_LEN,
			.lkey	= conn->path->dom->base.pd->local_dma_lkey,
		};
		wr[i] = (struct ib_recv_wr){
			.wr_cqe	= &conn->rx[first + i].cqe,
			.sg_list = &sge[i],
			.num_sge = 1,
			.next	= i + 1 < nr ? &wr[i + 1] : NULL,
		};
	}
	return ib_post_recv(conn->base.qp, wr, NULL);
}

static void keyed_done(struct ib_cq *cq, struct ib_wc *wc)
{
	struct client_rx *rx = container_of(wc->wr_cqe, struct client_rx, cqe);
	struct client_conn *conn = rx->conn;
	struct ib_device *dev;
	u32 i = rx - conn->rx;
	struct ib_recv_wr wr;
	struct ib_sge sge;
	u64 dma;
	int err;

	if (recv_failed(conn, wc))
		return;
	dev = conn->base.qp->device;
	dma = client_area_dma(&conn->rx_buf, i);
	ib_dma_sync_single_for_cpu(dev, dma, KEY_LEN, DMA_FROM_DEVICE);
	received(conn, wc, client_area_virt(&conn->rx_buf, i));
	ib_dma_sync_single_for_device(dev, dma, KEY_LEN, DMA_FROM_DEVICE);

	sge = (struct ib_sge){ dma, KEY_LEN,
			       conn->path->dom->base.pd->local_dma_lkey };
	wr = (struct ib_recv_wr){ .wr_cqe = &rx->cqe, .sg_list = &sge,
				  .num_sge = 1 };
	err = ib_post_recv(conn->base.qp, &wr, NULL);
	if (err)
		client_path_error(conn->path, err, "receive not posted");
}

/**
 * client_recv_alloc() - allocate a connection's receives
 * @conn:	established; the path knows whether the server sends keys
 *
 * Context: process context, sleeps; under the path's op_lock.
 * Return: 0 or -ENOMEM.
 */
int client_recv_alloc(struct client_conn *conn)
{
	u32 i;
	int err;

	conn->rx_cqe.done = empty_done;
	if (!conn->path->new_rkey)
		return 0;
	err = client_area_alloc(&conn->rx_buf, conn->path->dom->base.dev,
				KEY_LEN, conn->nr_recv, DMA_FROM_DEVICE);
	if (err)
		return err;
	conn->rx = kvcalloc(conn->nr_recv, sizeof(*conn->rx), GFP_KERNEL);
	if (!conn->rx)
		return -ENOMEM;
	for (i = 0; i < conn->nr_recv; i++) {
		conn->rx[i].cqe.done = keyed_done;
		conn->rx[i].conn = conn;
	}
	return 0;
}

/**
 * client_recv_free() - undo client_recv_alloc()
 * @conn:	without a queue pair; may have no receives
 *
 * Context: process context, sleeps; under the path's op_lock, the path still
 * has its domain.
 */
void client_recv_free(struct client_conn *conn)
{
	kvfree(conn->rx);
	conn->rx = NULL;
	if (conn->rx_buf.virt)
		client_area_free(&conn->rx_buf, conn->path->dom->base.dev);
}

/**
 * client_recv_post_all() - post a connection's receives
 * @conn:	the connection
 *
 * Context: process context; under the path's op_lock.
 * Return: 0 or what the device said.
 */
int client_recv_post_all(struct client_conn *conn)
{
	u32 i, n;
	int err = 0;

	if (!conn->rx)
		return rtrs_conn_post_recv_empty(&conn->base, &conn->rx_cqe,
						 conn->nr_recv);
	for (i = 0; i < conn->nr_recv && !err; i += n) {
		n = min_t(u32, conn->nr_recv - i, POST_BATCH);
		err = post_keyed(conn, i, n);
	}
	return err;
}
