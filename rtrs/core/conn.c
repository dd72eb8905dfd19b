// SPDX-License-Identifier: GPL-2.0
/*
 * Connections: an RC queue pair, its completion queue, its send-queue credits.
 *
 * The path creates a connection when the CM has resolved (client) or announced
 * (server) the peer, and destroys it after rtrs_conn_drain() has returned: from
 * then on no completion handler of the connection runs any more.  Everything
 * between is safe from any context.
 *
 * sq_lock serialises the posts of a connection.  Work requests collect in a
 * chain so that a batch costs one doorbell; a chain is posted as a whole under
 * the lock, hence the order of posts is the order of rtrs_conn_send() calls.
 *
 * Most work requests are unsignalled, so the space of the send queue comes back
 * only with the next signalled completion.  Completions of a send queue are
 * ordered; the ring retire[] says how many work requests each of them frees.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/delay.h>
#include <linux/log2.h>
#include <linux/mm.h>
#include <linux/module.h>
#include <linux/slab.h>

#include "internal.h"

/* At most so many work requests share a completion. */
#define SQ_BATCH_MAX	256
/* Receives posted by one call to the provider */
#define RECV_BATCH	16

/*
 * A peer that is merely slow must not look like a lost packet (README.md,
 * "Provider bugs"): wait 4.096 us * 2^19, 2 s, for an acknowledgement, not 0.5 s.
 */
#define RXE_ACK_TIMEOUT	19

static void conn_sq_done(struct ib_cq *cq, struct ib_wc *wc)
{
	struct rtrs_conn *conn = container_of(wc->wr_cqe, struct rtrs_conn,
					      sq_cqe);

	if (unlikely(wc->status != IB_WC_SUCCESS)) {
		/* A flushed receive may have told the path before: say why. */
		if (wc->status != IB_WC_WR_FLUSH_ERR)
			pr_warn_ratelimited("device %s, connection %u: send failed: %s (vendor 0x%x)\n",
					    wc->qp->device->name, conn->cid,
					    ib_wc_status_msg(wc->status),
					    wc->vendor_err);
		conn->ops->error(conn, ib_wc_status_msg(wc->status), -EIO);
		return;
	}
	rtrs_conn_sent(conn);
}

/**
 * rtrs_conn_init() - prepare a connection
 * @conn:	the connection
 * @ops:	callbacks of the path
 * @cid:	index in the path
 */
void rtrs_conn_init(struct rtrs_conn *conn, const struct rtrs_conn_ops *ops,
		    u16 cid)
{
	memset(conn, 0, sizeof(*conn));
	conn->ops = ops;
	conn->cid = cid;
	conn->sq_cqe.done = conn_sq_done;
	spin_lock_init(&conn->sq_lock);
}
EXPORT_SYMBOL_GPL(rtrs_conn_init);

static int conn_alloc_cq(struct rtrs_conn *conn,
			 const struct rtrs_conn_params *p)
{
	struct ib_device *dev = p->pd->device;
	int vector = p->comp_vector % dev->num_comp_vectors;
	struct ib_cq *cq;

	/* The pool has no queues for direct polling. */
	if (p->poll_ctx == IB_POLL_DIRECT)
		cq = ib_alloc_cq(dev, conn, conn->nr_cqe, vector, p->poll_ctx);
	else
		cq = ib_cq_pool_get(dev, conn->nr_cqe, vector, p->poll_ctx);
	if (IS_ERR(cq))
		return PTR_ERR(cq);
	conn->cq = cq;
	conn->poll_ctx = p->poll_ctx;
	return 0;
}

static void conn_free_cq(struct rtrs_conn *conn)
{
	if (conn->poll_ctx == IB_POLL_DIRECT)
		ib_free_cq(conn->cq);
	else
		ib_cq_pool_put(conn->cq, conn->nr_cqe);
	conn->cq = NULL;
}

/* What the device says about the queue pair as a whole; any context. */
static void conn_qp_event(struct ib_event *ev, void *context)
{
	struct rtrs_conn *conn = context;

	switch (ev->event) {
	case IB_EVENT_COMM_EST:
		/* Data was faster than the CM's last message. */
		rdma_notify(conn->cm_id, ev->event);
		break;
	case IB_EVENT_QP_FATAL:
	case IB_EVENT_QP_REQ_ERR:
	case IB_EVENT_QP_ACCESS_ERR:
		conn->ops->error(conn, ib_event_msg(ev->event), -EIO);
		break;
	default:
		break;
	}
}

/**
 * rtrs_conn_create() - give a connection its queues
 * @conn:	prepared by rtrs_conn_init(), with @cm_id set and bound to a device
 * @p:		sizes; the send queue shrinks to what the device can do, the
 *		receive queue does not
 *
 * Context: process context, sleeps.
 * Return: 0; -EMSGSIZE when the device cannot hold that many receives;
 * -ENOMEM or what the device said.
 */
int rtrs_conn_create(struct rtrs_conn *conn, const struct rtrs_conn_params *p)
{
	struct ib_device *dev = p->pd->device;
	u32 max_wr = dev->attrs.max_qp_wr - 1;
	u32 max_cqe = dev->attrs.max_cqe - 2;
	struct ib_qp_init_attr attr = {
		.qp_type	= IB_QPT_RC,
		.sq_sig_type	= IB_SIGNAL_REQ_WR,
		.event_handler	= conn_qp_event,
		.qp_context	= conn,
	};
	int err;

	/* One more of each queue for draining; both complete to one queue. */
	if (p->max_recv_wr > max_wr || p->max_recv_wr >= max_cqe)
		return -EMSGSIZE;
	conn->sq_size = min3(p->max_send_wr, max_wr, max_cqe - p->max_recv_wr);
	conn->sq_free = conn->sq_size;
	conn->sq_batch = clamp(conn->sq_size / 4, 1U, (u32)SQ_BATCH_MAX);
	conn->sq_open = 0;
	conn->sq_dead = false;
	conn->retire_head = 0;
	conn->retire_tail = 0;
	conn->stall_tail = 0;
	conn->stall_due = false;
	conn->stall_since = jiffies;
	conn->retire_mask = roundup_pow_of_two(conn->sq_size) - 1;
	conn->retire = kvcalloc(conn->retire_mask + 1, sizeof(*conn->retire),
				GFP_KERNEL);
	if (!conn->retire)
		return -ENOMEM;

	attr.cap.max_send_wr = conn->sq_size + 1;
	attr.cap.max_recv_wr = p->max_recv_wr + 1;
	attr.cap.max_send_sge = p->max_send_sge;
	attr.cap.max_recv_sge = 1;
	conn->nr_cqe = attr.cap.max_send_wr + attr.cap.max_recv_wr;
	err = conn_alloc_cq(conn, p);
	if (err)
		goto free;
	if (dev->ops.driver_id == RDMA_DRIVER_RXE)
		rdma_set_ack_timeout(conn->cm_id, RXE_ACK_TIMEOUT);
	attr.send_cq = conn->cq;
	attr.recv_cq = conn->cq;
	err = rdma_create_qp(conn->cm_id, p->pd, &attr);
	if (err)
		goto free_cq;
	conn->qp = conn->cm_id->qp;
	return 0;

free_cq:
	conn_free_cq(conn);
free:
	kvfree(conn->retire);
	conn->retire = NULL;
	return err;
}
EXPORT_SYMBOL_GPL(rtrs_conn_create);

/* The end of a queue that is being drained by polling */
struct drain_mark {
	struct ib_cqe	cqe;
	bool		done;
};

static void drain_mark_done(struct ib_cq *cq, struct ib_wc *wc)
{
	container_of(wc->wr_cqe, struct drain_mark, cqe)->done = true;
}

static void poll_until(struct rtrs_conn *conn, const struct drain_mark *mark)
{
	while (!mark->done)
		if (ib_process_cq_direct(conn->cq, -1) <= 0)
			usleep_range(50, 200);
}

static int mark_sq(struct rtrs_conn *conn)
{
	struct drain_mark mark = { .cqe.done = drain_mark_done };
	struct ib_rdma_wr wr = {
		.wr.wr_cqe	= &mark.cqe,
		.wr.opcode	= IB_WR_RDMA_WRITE,
	};
	int err = ib_post_send(conn->qp, &wr.wr, NULL);

	if (!err)
		poll_until(conn, &mark);
	return err;
}

static int mark_rq(struct rtrs_conn *conn)
{
	struct drain_mark mark = { .cqe.done = drain_mark_done };
	struct ib_recv_wr wr = { .wr_cqe = &mark.cqe };
	int err = ib_post_recv(conn->qp, &wr, NULL);

	if (!err)
		poll_until(conn, &mark);
	return err;
}

/*
 * As ib_drain_qp(), which sleeps for a tenth of a second before it polls a
 * queue that has no other poller.
 */
static void drain_polled(struct rtrs_conn *conn)
{
	struct ib_qp_attr attr = { .qp_state = IB_QPS_ERR };
	int err;

	err = ib_modify_qp(conn->qp, &attr, IB_QP_STATE) ?: mark_sq(conn) ?:
	      mark_rq(conn) ?: mark_rq(conn);
	if (err)
		pr_err("device %s, connection %u: queues cannot be drained (%d)\n",
		       conn->qp->device->name, conn->cid, err);
}

/**
 * rtrs_conn_drain() - stop a connection's queues
 * @conn:	the connection; may have no queue pair
 *
 * What was chained but not posted is dropped: no completion tells its owner.
 * When it returns no completion handler of the connection runs any more and the
 * device touches none of its memory.  Does not wait for the peer or the CM.
 *
 * A queue that the owner polls is polled here meanwhile; nobody else may.
 *
 * Context: process context, sleeps; not from a completion handler.
 */
void rtrs_conn_drain(struct rtrs_conn *conn)
{
	if (!conn->qp)
		return;
	spin_lock_irq(&conn->sq_lock);
	conn->sq_dead = true;
	conn->chain = NULL;
	spin_unlock_irq(&conn->sq_lock);
	if (conn->poll_ctx == IB_POLL_DIRECT &&
	    !conn->qp->device->ops.drain_sq && !conn->qp->device->ops.drain_rq) {
		drain_polled(conn);
		return;
	}
	ib_drain_qp(conn->qp);
	/*
	 * A handler that ran meanwhile may have posted a receive behind the
	 * marker.  Handlers post none for a flushed receive, so this is the end.
	 */
	ib_drain_rq(conn->qp);
}
EXPORT_SYMBOL_GPL(rtrs_conn_drain);

/**
 * rtrs_conn_destroy() - take a connection's queues away
 * @conn:	drained; may have no queue pair.  @cm_id stays.
 *
 * Context: process context, sleeps.
 */
void rtrs_conn_destroy(struct rtrs_conn *conn)
{
	if (!conn->qp)
		return;
	rdma_destroy_qp(conn->cm_id);
	conn->qp = NULL;
	conn_free_cq(conn);
	kvfree(conn->retire);
	conn->retire = NULL;
}
EXPORT_SYMBOL_GPL(rtrs_conn_destroy);

/* Post the chain.  Under sq_lock; on failure the connection is dead. */
static int conn_post_chain(struct rtrs_conn *conn)
{
	struct ib_send_wr *chain = conn->chain;
	int err;

	if (!chain)
		return 0;
	conn->chain = NULL;
	err = ib_post_send(conn->qp, chain, NULL);
	if (unlikely(err))
		conn->sq_dead = true;
	return err;
}

static void conn_append(struct rtrs_conn *conn, struct ib_send_wr *first,
			struct ib_send_wr *last, unsigned int nr)
{
	conn->sq_free -= nr;
	conn->sq_open += nr;
	if (conn->sq_open >= conn->sq_batch)
		last->send_flags |= IB_SEND_SIGNALED;
	if (last->send_flags & IB_SEND_SIGNALED) {
		conn->retire[conn->retire_head++ & conn->retire_mask] =
			conn->sq_open;
		conn->sq_open = 0;
	}
	last->next = NULL;
	if (conn->chain)
		conn->chain_tail->next = first;
	else
		conn->chain = first;
	conn->chain_tail = last;
}

/**
 * rtrs_conn_send() - send a group of work requests
 * @conn:	the connection
 * @first:	first work request of the group
 * @last:	the last one, reached from @first by ->next; its send_flags and
 *		->next are changed
 * @nr:		work requests in the group
 * @flush:	post now; else with a later group or by rtrs_conn_flush().
 *		Work requests that are not posted at once must stay valid until
 *		they are.
 *
 * A failing post is the connection's end and reported by the error callback,
 * not here: the group's owner learns of it like of any other lost connection.
 *
 * Context: any.
 * Return: 0; -EAGAIN: no room in the send queue, wait for the sent callback;
 * -ENOTCONN: the connection is dead.  With an error nothing was queued.
 */
int rtrs_conn_send(struct rtrs_conn *conn, struct ib_send_wr *first,
		   struct ib_send_wr *last, unsigned int nr, bool flush)
{
	unsigned long flags;
	int err = 0, post_err = 0;

	spin_lock_irqsave(&conn->sq_lock, flags);
	if (unlikely(conn->sq_dead))
		err = -ENOTCONN;
	else if (unlikely(conn->sq_free < nr))
		err = -EAGAIN;
	else
		conn_append(conn, first, last, nr);
	/* Out of room: what is chained must go, its completion makes room. */
	if (!conn->sq_dead && (flush || err))
		post_err = conn_post_chain(conn);
	spin_unlock_irqrestore(&conn->sq_lock, flags);

	if (unlikely(post_err))
		conn->ops->error(conn, "post failed", post_err);
	return err;
}
EXPORT_SYMBOL_GPL(rtrs_conn_send);

/**
 * rtrs_conn_flush() - post what rtrs_conn_send() collected
 * @conn:	the connection
 *
 * Context: any.
 */
void rtrs_conn_flush(struct rtrs_conn *conn)
{
	unsigned long flags;
	int err = 0;

	spin_lock_irqsave(&conn->sq_lock, flags);
	if (!conn->sq_dead)
		err = conn_post_chain(conn);
	spin_unlock_irqrestore(&conn->sq_lock, flags);

	if (unlikely(err))
		conn->ops->error(conn, "post failed", err);
}
EXPORT_SYMBOL_GPL(rtrs_conn_flush);

/**
 * rtrs_conn_sent() - a signalled work request completed: take its credits back
 * @conn:	the connection
 *
 * To be called first by the handler of every signalled work request that
 * completed with success.
 *
 * Context: the connection's completion handlers.
 */
void rtrs_conn_sent(struct rtrs_conn *conn)
{
	unsigned long flags;

	spin_lock_irqsave(&conn->sq_lock, flags);
	conn->sq_free += conn->retire[conn->retire_tail++ & conn->retire_mask];
	spin_unlock_irqrestore(&conn->sq_lock, flags);

	if (conn->ops->sent)
		conn->ops->sent(conn);
}
EXPORT_SYMBOL_GPL(rtrs_conn_sent);

/**
 * rtrs_conn_send_imm() - send nothing but an immediate
 * @conn:	the connection
 * @imm:	immediate, native byte order
 *
 * Context: any.
 * Return: as rtrs_conn_send().
 */
int rtrs_conn_send_imm(struct rtrs_conn *conn, u32 imm)
{
	struct ib_rdma_wr wr = {
		.wr.wr_cqe	= &conn->sq_cqe,
		.wr.opcode	= IB_WR_RDMA_WRITE_WITH_IMM,
		.wr.ex.imm_data	= cpu_to_be32(imm),
	};

	return rtrs_conn_send(conn, &wr.wr, &wr.wr, 1, true);
}
EXPORT_SYMBOL_GPL(rtrs_conn_send_imm);

/**
 * rtrs_conn_stalled() - for how long has the send queue stood still?
 * @conn:	the connection; created
 *
 * A queue pair can stop without telling anybody, and heartbeats travel on
 * another one.  Every look makes sure that a completion is due if anything was
 * posted: behind work requests nobody awaits it posts a write of nothing, which
 * the peer's user does not see.  Meant to be called once per heartbeat.
 *
 * Context: any.
 * Return: milliseconds since the first look that saw a completion due which has
 * not come; 0: none is, or none was due at the last look.
 */
unsigned int rtrs_conn_stalled(struct rtrs_conn *conn)
{
	struct ib_rdma_wr mark = {
		.wr.wr_cqe	= &conn->sq_cqe,
		.wr.opcode	= IB_WR_RDMA_WRITE,
		.wr.send_flags	= IB_SEND_SIGNALED,
	};
	bool due, unmarked;
	unsigned long flags;
	unsigned int ms = 0;

	spin_lock_irqsave(&conn->sq_lock, flags);
	due = conn->retire_head != conn->retire_tail && !conn->sq_dead;
	unmarked = !due && conn->sq_open;
	/* What was posted since the last look is not late yet. */
	if (due && conn->stall_due && conn->retire_tail == conn->stall_tail)
		ms = jiffies_to_msecs(jiffies - conn->stall_since);
	else
		conn->stall_since = jiffies;
	conn->stall_due = due || unmarked;
	conn->stall_tail = conn->retire_tail;
	spin_unlock_irqrestore(&conn->sq_lock, flags);

	/* No room: then something is signalled by now. */
	if (unmarked)
		rtrs_conn_send(conn, &mark.wr, &mark.wr, 1, true);
	return ms;
}

static int post_recv_batch(struct rtrs_conn *conn, struct ib_cqe *cqe,
			   unsigned int nr)
{
	struct ib_recv_wr wr[RECV_BATCH];
	unsigned int i;

	for (i = 0; i < nr; i++)
		wr[i] = (struct ib_recv_wr){
			.wr_cqe	= cqe,
			.next	= i + 1 < nr ? &wr[i + 1] : NULL,
		};
	return ib_post_recv(conn->qp, wr, NULL);
}

/**
 * rtrs_conn_post_recv_empty() - post receives that take immediates only
 * @conn:	the connection
 * @cqe:	handler of each of them
 * @nr:		how many
 *
 * Context: any.
 * Return: 0 or what the device said; some may be posted then.
 */
int rtrs_conn_post_recv_empty(struct rtrs_conn *conn, struct ib_cqe *cqe,
			      unsigned int nr)
{
	struct ib_recv_wr one = { .wr_cqe = cqe };
	unsigned int n;
	int err = 0;

	/* Every message costs this one; no batch is laid out for it. */
	if (nr == 1)
		return ib_post_recv(conn->qp, &one, NULL);
	for (; nr && !err; nr -= n) {
		n = min_t(unsigned int, nr, RECV_BATCH);
		err = post_recv_batch(conn, cqe, n);
	}
	return err;
}
EXPORT_SYMBOL_GPL(rtrs_conn_post_recv_empty);
