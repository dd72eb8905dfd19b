// SPDX-License-Identifier: GPL-2.0
/*
 * Responses: what the send queue of a request's connection gets to do.
 *
 * The id must be free before the client can see the response, because it may
 * use it again at once on another processor.  So the response is built on the
 * stack, the operation is given back, and only then it is posted.  If there
 * turns out to be no room in the send queue nobody has seen anything yet: the
 * operation is taken back and parked at its connection.  It is tried again when
 * room is made and dropped when the path leaves CONNECTED.
 *
 * What the device sends from is reused when it cannot need it any more: id-owned
 * memory when the client, having got the response, uses the id again; a spare
 * buffer when the response's own completion says so.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/mm.h>
#include <linux/slab.h>

#include "server.h"
#include "trace.h"

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
		msg = server_buf_at(op->sess->msgs, off);
		rtrs_rkey_rsp_encode(msg, op->id, server_mr(path, op->id)->rkey);
		server_buf_sync_dev(path->dom, op->sess->msgs, off, len);
		r->fin.wr.opcode = IB_WR_SEND_WITH_IMM;
		r->fin.wr.sg_list = &r->fin_sge;
		r->fin.wr.num_sge = server_buf_sge(path->dom,
						   op->sess->msgs, off,
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
	trace_rtrs_server_reply(op);
	if (err) {
		server_op_drop(op);
		return 0;
	}
	server_op_give_back(op);
	err = rtrs_conn_send(&conn->base, r.first, r.last, r.nr, true);
	if (err == -EAGAIN && server_op_take_back(op, conn, seq))
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
	/* server_op_abort() may have been faster. */
	spin_lock_irqsave(&op->lock, flags);
	ours = server_op_claim(op, conn, seq, OP_INVALIDATE);
	spin_unlock_irqrestore(&op->lock, flags);
	if (ours && err == -EAGAIN)
		return err;
	if (ours)
		server_op_drop(op);
	return 0;
}

static int op_post(struct server_op *op)
{
	if (!server_path_up(op->conn->path)) {
		server_op_drop(op);
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
		server_op_drop(op);
}

/**
 * server_op_unpark() - take the first operation of the line
 * @conn:	the connection
 *
 * Context: any.
 * Return: the operation, or NULL.
 */
struct server_op *server_op_unpark(struct server_conn *conn)
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
		while ((op = server_op_unpark(conn))) {
			if (op_post(op) == -EAGAIN) {
				op_park(op, conn, true);
				break;
			}
		}
		/* Pairs with the barrier in conn_sent(). */
		smp_mb();
	} while (op && atomic_read(&conn->room) != room);
}

/**
 * server_op_advance() - post what an operation needs now, or park it
 * @op:		the operation, stage OP_INVALIDATE or OP_ANSWER; not the
 *		caller's any more
 *
 * Context: any.
 */
void server_op_advance(struct server_op *op)
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
	server_op_advance(sop);
}
EXPORT_SYMBOL_GPL(rtrs_op_respond);
