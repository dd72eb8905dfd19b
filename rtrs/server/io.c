// SPDX-License-Identifier: GPL-2.0
/*
 * Requests and responses.
 *
 * An operation stands for a buffer id of the session.  It is taken by the
 * receive completion of a request, before anything that may wait, and given
 * back when its response has been laid out or is discarded; in between it
 * belongs to that request alone, whatever path the id is used on:
 *
 *   receive --> RUNNING --> user --> ANSWER --> response posted, id free
 *                  |          ^
 *                  v          |
 *             INVALIDATE --> INVALIDATING
 *
 * A second request with the same id over the same path is against the protocol
 * and closes the path.  Over another path it is the copy of a request whose
 * first path the client has given up: it waits in next_conn until the earlier
 * operation has ended, so the two never run side by side or in wrong order.
 *
 * While it has an operation a path cannot go away: server_path.users.
 *
 * The id must be free before the client can see the response, because it may
 * use it again at once on another processor.  So the response is built on the
 * stack, the operation is given back, and only then it is posted.  If there
 * turns out to be no room in the send queue nobody has seen anything yet: the
 * operation is taken back and parked at its connection.  It is tried again when
 * room is made and dropped when the path leaves CONNECTED.
 *
 * With always_invalidate neither the user nor our parser looks at memory that
 * the client can still write to.  Message and header are copied; small data and
 * answers live in private buffers, the id's small one or a large spare one; only
 * for large writes, and large reads when the spare buffers have run out, the
 * key of the chunk is voided first and renewed by the response.
 *
 * What the device sends from is reused when it cannot need it any more: id-owned
 * memory when the client, having got the response, uses the id again; a spare
 * buffer when the response's own completion says so.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/mm.h>
#include <linux/slab.h>

#include "server.h"

/* Work requests of a response, in the order they are chained */
struct response {
	struct ib_rdma_wr	data;
	struct ib_reg_wr	reg;
	struct ib_send_wr	inv;
	struct ib_rdma_wr	fin;
	struct ib_sge		data_sge[SERVER_MAX_SGE];
	struct ib_sge		fin_sge;

	struct ib_send_wr	*first;
	struct ib_send_wr	*last;
	unsigned int		nr;
};

/*
 * Taking an operation and giving it back
 */

enum op_taken {
	OP_TAKEN,
	OP_WAITS,
	OP_VIOLATION,
};

/* A request arrived; the caller holds a reference to its path's users. */
static enum op_taken op_take(struct server_op *op, struct server_conn *conn,
			     u32 off)
{
	struct server_conn *given_up = NULL;
	enum op_taken taken = OP_TAKEN;
	unsigned long flags;

	spin_lock_irqsave(&op->lock, flags);
	if (!op->conn) {
		op->conn = conn;
		op->off = off;
	} else if (op->conn->path == conn->path ||
		   (op->next_conn && op->next_conn->path == conn->path)) {
		taken = OP_VIOLATION;
	} else {
		/* Of several paths the client has given up all but this one. */
		given_up = op->next_conn;
		op->next_conn = conn;
		op->next_off = off;
		taken = OP_WAITS;
	}
	spin_unlock_irqrestore(&op->lock, flags);
	if (given_up)
		percpu_ref_put(&given_up->path->users);
	return taken;
}

/* The operation has ended: its id is free, or goes to the copy that waits. */
static void op_give_back(struct server_op *op)
{
	unsigned long flags;
	bool waits;

	spin_lock_irqsave(&op->lock, flags);
	op->seq++;
	op->conn = op->next_conn;
	op->next_conn = NULL;
	waits = op->conn;
	if (waits)
		op->off = op->next_off;
	spin_unlock_irqrestore(&op->lock, flags);
	if (waits)
		queue_work(server_wq, &op->work);
}

/* Undo op_give_back(), unless someone else has had the operation since. */
static bool op_take_back(struct server_op *op, struct server_conn *conn, u32 seq)
{
	unsigned long flags;
	bool ours;

	spin_lock_irqsave(&op->lock, flags);
	ours = !op->conn && op->seq == seq + 1;
	if (ours)
		op->conn = conn;
	spin_unlock_irqrestore(&op->lock, flags);
	return ours;
}

/* End an operation without a response. */
static void op_drop(struct server_op *op)
{
	struct server_path *path = op->conn->path;

	op_give_back(op);
	percpu_ref_put(&path->users);
}

/*
 * An invalidation was not posted, or will never complete.  Whoever gets true
 * owns the operation; the sequence number tells it from a later one.
 */
static bool op_claim(struct server_op *op, struct server_conn *conn, u32 seq,
		     enum server_stage to)
{
	bool ours;

	lockdep_assert_held(&op->lock);
	ours = op->conn == conn && op->seq == seq &&
	       op->stage == OP_INVALIDATING;
	if (ours)
		WRITE_ONCE(op->stage, to);
	return ours;
}

/*
 * Posting
 */

static void chain(struct response *r, struct ib_send_wr *wr)
{
	if (r->nr++)
		r->last->next = wr;
	else
		r->first = wr;
	r->last = wr;
}

/* The next piece of the answer's data; returns its length. */
static u32 build_data(struct server_op *op, struct response *r)
{
	struct server_conn *conn = op->conn;
	u32 len = op->op.data_len - op->data_sent;

	r->data = (struct ib_rdma_wr){
		.wr.wr_cqe	= &conn->base.sq_cqe,
		.wr.opcode	= IB_WR_RDMA_WRITE,
		.wr.sg_list	= r->data_sge,
		.remote_addr	= op->hdr.desc.addr + op->data_sent,
		.rkey		= op->hdr.desc.key,
	};
	r->data.wr.num_sge = server_buf_sge(conn->path->dom, op->buf,
					    op->data_sent, &len, r->data_sge,
					    conn->max_sge);
	return len;
}

/* All data but what rides with the rest of the response */
static int post_front(struct server_op *op, struct response *r)
{
	u32 len;
	int err;

	for (;;) {
		len = build_data(op, r);
		if (op->data_sent + len == op->op.data_len)
			return 0;
		err = rtrs_conn_send(&op->conn->base, &r->data.wr, &r->data.wr,
				     1, true);
		if (err)
			return err;
		op->data_sent += len;
	}
}

static void build_reg(struct server_op *op, struct response *r)
{
	struct ib_mr *mr = server_mr(op->conn->path, op->id);

	r->reg = (struct ib_reg_wr){
		.wr.wr_cqe	= &op->conn->base.sq_cqe,
		.wr.opcode	= IB_WR_REG_MR,
		.mr		= mr,
		.key		= mr->rkey,
		.access		= IB_ACCESS_LOCAL_WRITE | IB_ACCESS_REMOTE_WRITE,
	};
	chain(r, &r->reg.wr);
}

static void build_inv(struct server_op *op, struct response *r)
{
	r->inv = (struct ib_send_wr){
		.wr_cqe			= &op->conn->base.sq_cqe,
		.opcode			= IB_WR_SEND_WITH_INV,
		.ex.invalidate_rkey	= op->hdr.desc.key,
	};
	chain(r, &r->inv);
}

static void build_fin(struct server_op *op, struct response *r, bool inv)
{
	struct server_path *path = op->conn->path;
	struct rtrs_wire_rkey_rsp *msg;
	u32 len = sizeof(*msg), off = op->id * sizeof(*msg);

	r->fin = (struct ib_rdma_wr){
		.wr.wr_cqe	= &op->conn->base.sq_cqe,
		.wr.opcode	= IB_WR_RDMA_WRITE_WITH_IMM,
	};
	r->fin.wr.ex.imm_data =
		cpu_to_be32(rtrs_io_rsp_imm(op->id, op->error, inv));
	if (op->sess->always_invalidate) {
		msg = server_buf_at(server_msgs(op->sess), off);
		rtrs_rkey_rsp_encode(msg, op->id, server_mr(path, op->id)->rkey);
		server_buf_sync_dev(path->dom, server_msgs(op->sess), off, len);
		r->fin.wr.opcode = IB_WR_SEND_WITH_IMM;
		r->fin.wr.sg_list = &r->fin_sge;
		r->fin.wr.num_sge = server_buf_sge(path->dom,
						   server_msgs(op->sess), off,
						   &len, &r->fin_sge, 1);
	}
	chain(r, &r->fin.wr);
}

/* The order of the work requests is the protocol's. */
static int build_response(struct server_op *op, struct response *r)
{
	bool inv = op->hdr.has_desc && op->hdr.need_inval;
	bool data = op->hdr.has_desc && !op->error;
	int err;

	r->nr = 0;
	if (data) {
		err = post_front(op, r);
		if (err)
			return err;
		chain(r, &r->data.wr);
	} else if (inv) {
		build_inv(op, r);
	}
	if (op->invalidated)
		build_reg(op, r);
	if (data && inv)
		build_inv(op, r);
	build_fin(op, r, inv);

	if (op->spare && data) {
		op->spare->conn = op->conn;
		r->fin.wr.wr_cqe = &op->spare->cqe;
		r->fin.wr.send_flags = IB_SEND_SIGNALED;
	} else if (op->spare) {
		server_spare_put(op->spare);
		op->spare = NULL;
	}
	return 0;
}

/* Returns -EAGAIN if the operation must wait for room, else it is gone. */
static int post_response(struct server_op *op)
{
	struct server_conn *conn = op->conn;
	struct server_path *path = conn->path;
	u32 seq = op->seq;
	struct response r;
	int err;

	err = build_response(op, &r);
	if (err == -EAGAIN)
		return err;
	if (err) {
		op_drop(op);
		return 0;
	}
	op_give_back(op);
	err = rtrs_conn_send(&conn->base, r.first, r.last, r.nr, true);
	if (err == -EAGAIN && op_take_back(op, conn, seq))
		return err;
	/*
	 * -EAGAIN here: the client has used the id again without an answer,
	 * over this path against the rules, over another one because it has
	 * given this one up.
	 */
	if (err)
		server_path_close(path, "a response could not be sent");
	percpu_ref_put(&path->users);
	return 0;
}

/* Returns -EAGAIN if the operation must wait for room. */
static int post_invalidate(struct server_op *op)
{
	struct server_conn *conn = op->conn;
	struct ib_send_wr wr = {
		.wr_cqe			= &op->inv_cqe,
		.opcode			= IB_WR_LOCAL_INV,
		.send_flags		= IB_SEND_SIGNALED,
		.ex.invalidate_rkey	= server_mr(conn->path, op->id)->rkey,
	};
	u32 seq = op->seq;
	unsigned long flags;
	bool ours;
	int err;

	WRITE_ONCE(op->stage, OP_INVALIDATING);
	err = rtrs_conn_send(&conn->base, &wr, &wr, 1, true);
	if (!err)
		return 0;
	/* server_io_abort() may have been faster. */
	spin_lock_irqsave(&op->lock, flags);
	ours = op_claim(op, conn, seq, OP_INVALIDATE);
	spin_unlock_irqrestore(&op->lock, flags);
	if (ours && err == -EAGAIN)
		return err;
	if (ours)
		op_drop(op);
	return 0;
}

static int op_post(struct server_op *op)
{
	if (!server_path_up(op->conn->path)) {
		op_drop(op);
		return 0;
	}
	return op->stage == OP_INVALIDATE ? post_invalidate(op) :
					    post_response(op);
}

/* Wait for room at the head or the tail of the line. */
static void op_park(struct server_op *op, struct server_conn *conn, bool head)
{
	unsigned long flags;
	bool parked;

	spin_lock_irqsave(&conn->park_lock, flags);
	/* After CLOSING the close work has looked here, or is going to. */
	parked = server_path_up(conn->path);
	if (parked && head)
		list_add(&op->parked, &conn->parked);
	else if (parked)
		list_add_tail(&op->parked, &conn->parked);
	spin_unlock_irqrestore(&conn->park_lock, flags);
	if (!parked)
		op_drop(op);
}

static struct server_op *op_unpark(struct server_conn *conn)
{
	struct server_op *op;
	unsigned long flags;

	spin_lock_irqsave(&conn->park_lock, flags);
	op = list_first_entry_or_null(&conn->parked, struct server_op, parked);
	if (op)
		list_del_init(&op->parked);
	spin_unlock_irqrestore(&conn->park_lock, flags);
	return op;
}

/**
 * server_conn_resume() - post what waits for room in the send queue
 * @conn:	the connection; its path is held by an operation, or it is not
 *		drained
 *
 * Context: any.
 */
void server_conn_resume(struct server_conn *conn)
{
	struct server_op *op;
	int room;

	do {
		room = atomic_read(&conn->room);
		while ((op = op_unpark(conn))) {
			if (op_post(op) == -EAGAIN) {
				op_park(op, conn, true);
				break;
			}
		}
		/* Pairs with the barrier in conn_sent(). */
		smp_mb();
	} while (op && atomic_read(&conn->room) != room);
}

/* Post what the operation needs now, or park it. */
static void op_advance(struct server_op *op)
{
	struct server_conn *conn = op->conn;
	struct server_path *path = conn->path;

	/* Keeps the connection while the line is looked at */
	percpu_ref_get(&path->users);
	if (!list_empty_careful(&conn->parked) || op_post(op) == -EAGAIN) {
		op_park(op, conn, false);
		server_conn_resume(conn);
	}
	percpu_ref_put(&path->users);
}

/**
 * rtrs_op_priv() - the user's own memory for an operation
 * @op:		the operation
 *
 * Context: any.
 * Return: rtrs_server_ops.op_priv_size bytes, as the last operation of the
 * same buffer id left them; zero at first.
 */
void *rtrs_op_priv(struct rtrs_op *op)
{
	struct server_op *sop = container_of(op, struct server_op, op);

	return (void *)sop + sop->sess->op_priv;
}
EXPORT_SYMBOL_GPL(rtrs_op_priv);

/**
 * rtrs_op_respond() - answer an operation
 * @op:		the operation; not to be touched any more by the caller
 * @error:	0 or a negative errno
 *
 * Sends a READ's data from &rtrs_op.bvec if @error is 0.  The answer is
 * discarded when the path the request came over is gone.
 *
 * Context: any.
 */
void rtrs_op_respond(struct rtrs_op *op, int error)
{
	struct server_op *sop = container_of(op, struct server_op, op);

	sop->error = error > 0 ? -EIO : error;
	WRITE_ONCE(sop->stage, OP_ANSWER);
	if (!sop->error && sop->hdr.has_desc)
		server_buf_sync_dev(sop->conn->path->dom, sop->buf, 0,
				    op->data_len);
	op_advance(sop);
}
EXPORT_SYMBOL_GPL(rtrs_op_respond);

/*
 * Requests
 */

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

static void invalidate_done(struct ib_cq *cq, struct ib_wc *wc)
{
	struct server_op *op = container_of(wc->wr_cqe, struct server_op,
					    inv_cqe);
	struct server_conn *conn = op->conn;
	struct server_path *path = conn->path;
	struct ib_mr *mr = server_mr(path, op->id);

	/* server_io_abort() comes after the last completion. */
	WRITE_ONCE(op->stage, OP_RUNNING);
	if (wc->status != IB_WC_SUCCESS) {
		server_path_close(path, "a key could not be invalidated");
		op_drop(op);
		return;
	}
	rtrs_conn_sent(&conn->base);
	ib_update_fast_reg_key(mr, ib_inc_rkey(mr->rkey));
	op->invalidated = true;
	op->buf = server_chunk(op->sess, op->id);
	if (op->op.dir == RTRS_DIR_WRITE)
		server_buf_sync_cpu(path->dom, op->buf, 0, op->op.data_len);
	op_submit(op);
}

/* Copy the data of a WRITE to where the client cannot reach it. */
static void copy_in(struct server_op *op)
{
	struct server_buf *chunk = server_chunk(op->sess, op->id);

	if (op->op.dir != RTRS_DIR_WRITE)
		return;
	server_buf_sync_cpu(op->conn->path->dom, chunk, 0, op->op.data_len);
	server_buf_copy(op->buf, chunk, op->op.data_len);
}

/*
 * Choose the memory for the data.  Returns false if the chunk's key has to be
 * invalidated before the user may have it.
 */
static bool place_data(struct server_op *op)
{
	struct rtrs_server_session *sess = op->sess;
	u32 len = op->op.data_len;

	op->buf = server_chunk(sess, op->id);
	if (!len)
		return true;
	if (!sess->always_invalidate) {
		if (op->op.dir == RTRS_DIR_WRITE)
			server_buf_sync_cpu(op->conn->path->dom, op->buf, 0,
					    len);
		return true;
	}
	if (len <= sess->small_size) {
		op->buf = server_small(sess, op->id);
		copy_in(op);
		return true;
	}
	/* Voiding one path's key does not keep the others' out. */
	if (op->op.dir == RTRS_DIR_READ || READ_ONCE(sess->nr_registered) > 1) {
		op->spare = server_spare_get(op->conn->path);
		if (op->spare) {
			op->buf = op->spare->buf;
			copy_in(op);
			return true;
		}
	}
	return false;
}

/* Private copies of header and user message; nothing else reads them. */
static int fetch(struct server_op *op)
{
	struct rtrs_server_session *sess = op->sess;
	struct server_domain *dom = op->conn->path->dom;
	struct server_buf *chunk = server_chunk(sess, op->id);
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

/* The operation is taken: carry the request out.  Process context. */
static void op_start(struct server_op *op)
{
	struct server_path *path = op->conn->path;
	int err;

	op->error = 0;
	op->data_sent = 0;
	op->invalidated = false;
	op->spare = NULL;
	WRITE_ONCE(op->stage, OP_RUNNING);

	err = fetch(op);
	if (err == -EPROTO) {
		server_path_close(path, "unknown type of request");
		op_drop(op);
		return;
	}
	this_cpu_inc(path->stats->ops[op->op.dir]);
	this_cpu_add(path->stats->bytes[op->op.dir], op->off);
	if (err) {
		rtrs_op_respond(&op->op, err);
	} else if (place_data(op)) {
		op_submit(op);
	} else {
		WRITE_ONCE(op->stage, OP_INVALIDATE);
		op_advance(op);
	}
}

/* A copy of a request whose earlier operation has ended */
static void op_work(struct work_struct *work)
{
	struct server_op *op = container_of(work, struct server_op, work);

	if (server_path_up(op->conn->path))
		op_start(op);
	else
		op_drop(op);
}

static void handle_request(struct server_conn *conn, u32 imm)
{
	struct server_path *path = conn->path;
	struct rtrs_server_session *sess = path->sess;
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
	switch (op_take(op, conn, off)) {
	case OP_TAKEN:
		op_start(op);
		break;
	case OP_WAITS:
		break;
	case OP_VIOLATION:
		server_path_close(path, "a buffer id was used twice at a time");
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
			rtrs_conn_send_imm(&conn->base,
					   rtrs_imm(RTRS_IMM_HB_ACK, 0));
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

/*
 * Beginning and end
 */

/**
 * server_op_init() - prepare an operation
 * @op:		zeroed
 * @sess:	its session
 * @id:		its buffer id
 */
void server_op_init(struct server_op *op, struct rtrs_server_session *sess,
		    u32 id)
{
	op->sess = sess;
	op->id = id;
	spin_lock_init(&op->lock);
	op->inv_cqe.done = invalidate_done;
	INIT_LIST_HEAD(&op->parked);
	INIT_WORK(&op->work, op_work);
}

/**
 * server_io_abort() - end the operations that only waited for the device
 * @path:	CLOSING, its connections are drained
 *
 * What the user is working on ends with its answer.
 */
void server_io_abort(struct server_path *path)
{
	struct rtrs_server_session *sess = path->sess;
	struct server_op *op;
	bool waits, ours;
	u32 id;

	for (id = 0; id < path->cid_num; id++)
		while (path->conns[id] && (op = op_unpark(path->conns[id])))
			op_drop(op);

	for (id = 0; id < sess->depth; id++) {
		op = server_op(sess, id);
		spin_lock_irq(&op->lock);
		waits = op->next_conn && op->next_conn->path == path;
		if (waits)
			op->next_conn = NULL;
		/* Posted, but the connection died before: no completion */
		ours = op->conn && op->conn->path == path &&
		       op_claim(op, op->conn, op->seq, OP_RUNNING);
		spin_unlock_irq(&op->lock);
		if (waits)
			percpu_ref_put(&path->users);
		if (ours)
			op_drop(op);
	}
}
