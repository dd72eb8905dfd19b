// SPDX-License-Identifier: GPL-2.0
/*
 * Requests: from the immediate to the user.
 *
 * With always_invalidate neither the user nor our parser looks at memory that
 * the client can still write to.  Message and header are copied; small data and
 * answers live in private buffers, the id's small one or a large spare one.
 * When the spare ones are all in use:
 *
 *   - in a session that has only ever had one path the key of the chunk is
 *     voided first and renewed by the response;
 *   - with more paths that would not do.  Another path's key would still reach
 *     the chunk; and without that key a client that loses this path could not
 *     send the request again over the other.  The operation waits for a spare
 *     buffer, and more of them are made, up to one for each buffer id.
 *
 * Large writes of a session with one path use the chunk in any case; but not on a
 * device that cannot be trusted with registrations among other work requests.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/mm.h>
#include <linux/slab.h>

#include "server.h"
#include "trace.h"

static void op_submit(struct server_op *op)
{
	struct rtrs_server_session *sess = op->sess;
	int err;

	op->op.bvec = op->bvec;
	op->op.nr_bvecs = op->op.data_len ?
		server_buf_bvec(op->buf, op->op.data_len, op->bvec) : 0;
	err = sess->srv->ops.request(sess->priv, &op->op);
	if (err)
		rtrs_op_respond(&op->op, err);
}

/**
 * server_invalidate_done() - handler of an invalidation
 * @cq:	completion queue
 * @wc:	completion
 */
void server_invalidate_done(struct ib_cq *cq, struct ib_wc *wc)
{
	struct server_op *op = container_of(wc->wr_cqe, struct server_op,
					    inv_cqe);
	struct server_conn *conn = op->conn;
	struct server_path *path = conn->path;
	struct ib_mr *mr = server_mr(path, op->id);

	/* server_op_abort() comes after the last completion. */
	WRITE_ONCE(op->stage, OP_RUNNING);
	if (wc->status != IB_WC_SUCCESS) {
		server_path_close(path, "a key could not be invalidated");
		server_op_drop(op);
		return;
	}
	rtrs_conn_sent(&conn->base);
	ib_update_fast_reg_key(mr, ib_inc_rkey(mr->rkey));
	op->invalidated = true;
	op->buf = server_chunk(path, op->id);
	if (op->op.dir == RTRS_DIR_WRITE)
		server_buf_sync_cpu(path->dom, op->buf, 0, op->op.data_len);
	op_submit(op);
}

/* Copy the data of a WRITE to where the client cannot reach it. */
static void copy_in(struct server_op *op)
{
	struct server_buf *chunk = server_chunk(op->conn->path, op->id);

	if (op->op.dir != RTRS_DIR_WRITE)
		return;
	server_buf_sync_cpu(op->conn->path->dom, chunk, 0, op->op.data_len);
	server_buf_copy(op->buf, chunk, op->op.data_len);
}

/* May the data stay in the chunk, if its key is voided? */
static bool may_void(struct server_op *op)
{
	unsigned long flags;
	bool may;

	if (rtrs_avoids_reg_mr(op->conn->base.qp->device))
		return false;
	/* A path that is being added looks at both: server_fence_check(). */
	spin_lock_irqsave(&op->lock, flags);
	may = !READ_ONCE(op->sess->many);
	op->voids = may;
	spin_unlock_irqrestore(&op->lock, flags);
	return may;
}

enum placed {
	PLACED,
	PLACED_IF_VOID,		/* invalidate the chunk's key */
	PLACED_LATER,		/* by server_op_work(), perhaps already */
};

/* Choose the memory for the data. */
static enum placed place_data(struct server_op *op)
{
	struct rtrs_server_session *sess = op->sess;
	u32 len = op->op.data_len;

	op->buf = server_chunk(op->conn->path, op->id);
	if (!len)
		return PLACED;
	if (!sess->always_invalidate) {
		if (op->op.dir == RTRS_DIR_WRITE)
			server_buf_sync_cpu(op->conn->path->dom, op->buf, 0,
					    len);
		return PLACED;
	}
	if (len <= sess->small_size) {
		op->buf = server_small(sess, op->id);
		copy_in(op);
		return PLACED;
	}
	/* Voiding a key is cheaper than copying, but not than reading. */
	if (op->op.dir == RTRS_DIR_WRITE && may_void(op))
		return PLACED_IF_VOID;
	if (!server_spare_get(op, false)) {
		if (op->op.dir == RTRS_DIR_READ && may_void(op))
			return PLACED_IF_VOID;
		if (!server_spare_get(op, true))
			return PLACED_LATER;
	}
	copy_in(op);
	return PLACED;
}

/* Private copies of header and user message; nothing else reads them. */
static int fetch(struct server_op *op)
{
	struct rtrs_server_session *sess = op->sess;
	struct server_domain *dom = op->conn->path->dom;
	struct server_buf *chunk = server_chunk(op->conn->path, op->id);
	u8 raw[RTRS_MAX_IO_HDR];
	u32 len = min_t(u32, sizeof(raw), sess->chunk_size - op->off);
	int err;

	server_buf_sync_cpu(dom, chunk, op->off, len);
	server_buf_read(chunk, op->off, raw, len);
	err = rtrs_io_hdr_decode(raw, len, op->off, sess->max_io_size,
				 SERVER_HDR_SIZE, &op->hdr);
	op->op.dir = op->hdr.dir;
	op->op.usr = (void *)op + sess->op_usr;
	op->op.usr_len = 0;
	op->op.data_len = 0;
	if (err)
		return err;
	if (op->hdr.usr_len > sess->srv->ops.max_usr_len)
		return -EINVAL;
	op->op.usr_len = op->hdr.usr_len;
	op->op.data_len = op->hdr.data_len;
	server_buf_sync_cpu(dom, chunk, op->op.data_len, op->op.usr_len);
	server_buf_read(chunk, op->op.data_len, op->op.usr, op->op.usr_len);
	return 0;
}

/**
 * server_op_start() - carry a request out
 * @op:		taken for it, stage OP_RUNNING
 *
 * Context: process context of a completion queue or work; does not wait.
 */
void server_op_start(struct server_op *op)
{
	struct server_path *path = op->conn->path;
	int err;

	op->error = 0;
	op->data_sent = 0;
	op->invalidated = false;

	err = fetch(op);
	if (err == -EPROTO) {
		server_path_close(path, "unknown type of request");
		server_op_drop(op);
		return;
	}
	this_cpu_inc(path->stats->ops[op->op.dir]);
	this_cpu_add(path->stats->bytes[op->op.dir], op->off);
	trace_rtrs_server_start(op);
	if (err) {
		rtrs_op_respond(&op->op, err);
		return;
	}
	switch (place_data(op)) {
	case PLACED:
		op_submit(op);
		break;
	case PLACED_IF_VOID:
		WRITE_ONCE(op->stage, OP_INVALIDATE);
		server_op_advance(op);
		break;
	case PLACED_LATER:
		break;
	}
}

/**
 * server_op_work() - go on with an operation that has waited
 * @work:	server_op.work
 *
 * For an earlier operation with the same id, stage OP_NEXT, or for a spare
 * buffer, stage OP_PLACED.
 */
void server_op_work(struct work_struct *work)
{
	struct server_op *op = container_of(work, struct server_op, work);
	struct server_path *path = op->conn->path;

	/* Keeps the session when the operation is not ours any more */
	percpu_ref_get(&path->users);
	if (READ_ONCE(op->stage) != OP_PLACED) {
		server_op_admit(op);
	} else if (server_path_up(path)) {
		WRITE_ONCE(op->stage, OP_RUNNING);
		copy_in(op);
		op_submit(op);
	} else {
		server_op_drop(op);
	}
	percpu_ref_put(&path->users);
}

static void handle_request(struct server_conn *conn, u32 imm)
{
	struct server_path *path = conn->path;
	struct rtrs_server_session *sess = path->sess;
	enum server_taken taken;
	struct server_op *op;
	u32 id, off;

	/* Heartbeats are legal earlier: old clients start theirs at once. */
	if (unlikely(!server_path_up(path))) {
		server_path_close(path, "a request before INFO_RSP");
		return;
	}
	if (rtrs_io_req_imm_decode(imm, sess->depth, sess->chunk_size, &id,
				   &off)) {
		server_path_close(path, "a request is out of bounds");
		return;
	}
	if (!percpu_ref_tryget_live(&path->users))
		return;
	op = server_op(sess, id);
	taken = server_op_take(op, conn, off);
	trace_rtrs_server_receive(conn, id, off, taken);
	switch (taken) {
	case OP_TAKEN:
		server_op_start(op);
		break;
	case OP_TAKEN_HELD:
		server_op_admit(op);
		break;
	case OP_QUEUED:
		break;
	case OP_VIOLATION:
		server_path_close(path, "a buffer id was used twice at a time");
		fallthrough;
	case OP_LATE:
		percpu_ref_put(&path->users);
		break;
	}
}

static void handle_imm(struct server_conn *conn, u32 imm)
{
	struct server_path *path = conn->path;

	switch (rtrs_imm_type(imm)) {
	case RTRS_IMM_IO_REQ:
		handle_request(conn, imm);
		break;
	case RTRS_IMM_HB_MSG:
		if (conn->base.cid)
			server_path_close(path, "heartbeat on an I/O connection");
		else
			server_hb_received(path);
		break;
	case RTRS_IMM_HB_ACK:
		break;
	case RTRS_IMM_IO_RSP:
	case RTRS_IMM_IO_RSP_INV:
		server_path_close(path, "a client must not send responses");
		break;
	default:
		if (!READ_ONCE(path->grumbled)) {
			WRITE_ONCE(path->grumbled, true);
			path_info(path, "immediates of type %u are ignored\n",
				  rtrs_imm_type(imm));
		}
	}
}

/**
 * server_recv_done() - handler of all receives but INFO_REQ's
 * @cq:	completion queue
 * @wc:	completion
 */
void server_recv_done(struct ib_cq *cq, struct ib_wc *wc)
{
	struct server_conn *conn = container_of(wc->wr_cqe, struct server_conn,
						recv_cqe);
	struct server_path *path = conn->path;

	if (unlikely(wc->status != IB_WC_SUCCESS)) {
		server_path_close(path, ib_wc_status_msg(wc->status));
		return;
	}
	rtrs_conn_alive(&conn->base);
	if (unlikely(wc->opcode != IB_WC_RECV_RDMA_WITH_IMM)) {
		server_path_close(path, "a message without an immediate");
		return;
	}
	if (unlikely(rtrs_conn_post_recv_empty(&conn->base, &conn->recv_cqe,
					       1))) {
		server_path_close(path, "a receive could not be posted");
		return;
	}
	handle_imm(conn, be32_to_cpu(wc->ex.imm_data));
}
