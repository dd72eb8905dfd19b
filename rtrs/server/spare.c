// SPDX-License-Identifier: GPL-2.0
/*
 * Spare buffers: the large private buffers of a session.
 *
 * Taken by an operation for data that does not fit the small private buffer of
 * its id.  Usually given back by the completion of the response that sends from
 * it, or before the response if nothing is sent from it, or when the operation
 * is dropped.  If the path dies after something was sent there is no telling who
 * was last: the close work gives back what the path still has, after its
 * connections are drained and its operations have ended.
 *
 * A session begins with a few.  If they are all in use and the operation cannot
 * do without (io.c), it queues, in the order of arrival, and a work allocates
 * more: at most one for each buffer id, so that a disk which keeps its buffers
 * for long does not keep the requests for other disks waiting.  Only if there
 * is no memory, or clients may not claim more, does the operation have to wait
 * until another one gives its buffer back.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/bitops.h>
#include <linux/mm.h>
#include <linux/sched/mm.h>

#include "server.h"

static struct server_spare *take(struct rtrs_server_session *sess)
{
	u32 i = 0;

	while ((i = find_next_zero_bit(sess->spare_used, sess->max_spares, i)) <
	       sess->max_spares)
		if (!test_and_set_bit_lock(i, sess->spare_used))
			return &sess->spare[i];
	return NULL;
}

static void give(struct server_spare *spare, struct server_op *op)
{
	WRITE_ONCE(spare->path, op->conn->path);
	op->spare = spare;
	op->buf = spare->buf;
}

/* The operations at the head of the queue get what has become free. */
static void serve(struct rtrs_server_session *sess)
{
	struct server_spare *spare;
	struct server_op *op;
	unsigned long flags;

	spin_lock_irqsave(&sess->spare_lock, flags);
	while (!list_empty(&sess->spare_queue)) {
		spare = take(sess);
		if (!spare)
			break;
		op = list_first_entry(&sess->spare_queue, struct server_op,
				      parked);
		list_del_init(&op->parked);
		give(spare, op);
		WRITE_ONCE(op->stage, OP_PLACED);
		queue_work(server_wq, &op->work);
	}
	spin_unlock_irqrestore(&sess->spare_lock, flags);
}

static void enqueue(struct server_op *op)
{
	struct rtrs_server_session *sess = op->sess;
	bool more = READ_ONCE(sess->nr_spares) < sess->max_spares;
	struct server_path *path = op->conn->path;
	unsigned long flags;
	bool queued;

	spin_lock_irqsave(&sess->spare_lock, flags);
	WRITE_ONCE(op->stage, OP_SPARE);
	/* After CLOSING the close work has looked here, or is going to. */
	queued = server_path_up(path);
	if (queued)
		list_add_tail(&op->parked, &sess->spare_queue);
	spin_unlock_irqrestore(&sess->spare_lock, flags);
	if (!queued) {
		server_op_drop(op);
		return;
	}
	/* Pairs with the barrier in server_spare_put(). */
	smp_mb();
	serve(sess);
	if (more)
		queue_work(server_wq, &sess->grow_work);
}

/**
 * server_spare_get() - get a spare buffer for an operation
 * @op:		the operation
 * @wait:	if there is none, queue: server_op_work() will run when there is
 *
 * Context: process context that holds a reference to the operation's path.
 * Return: whether it has one.  If not, and @wait, the operation is not the
 * caller's any more.
 */
bool server_spare_get(struct server_op *op, bool wait)
{
	struct server_spare *spare = NULL;

	if (likely(list_empty_careful(&op->sess->spare_queue)))
		spare = take(op->sess);
	if (spare)
		give(spare, op);
	else if (wait)
		enqueue(op);
	return spare;
}

/**
 * server_spare_put() - give a spare buffer back
 * @spare:	the buffer; no device is going to read it
 *
 * Context: any.
 */
void server_spare_put(struct server_spare *spare)
{
	struct rtrs_server_session *sess = spare->sess;

	WRITE_ONCE(spare->path, NULL);
	clear_bit_unlock(spare - sess->spare, sess->spare_used);
	/* Pairs with the barrier in enqueue(). */
	smp_mb__after_atomic();
	if (!list_empty_careful(&sess->spare_queue))
		serve(sess);
}

/**
 * server_spare_sent() - handler of a response with data from a spare buffer
 * @cq:	completion queue
 * @wc:	completion
 */
void server_spare_sent(struct ib_cq *cq, struct ib_wc *wc)
{
	struct server_spare *spare = container_of(wc->wr_cqe,
						  struct server_spare, cqe);
	struct server_conn *conn = spare->conn;

	/* In case of an error the path gives it back when it is drained. */
	if (wc->status != IB_WC_SUCCESS) {
		server_path_close(conn->path, ib_wc_status_msg(wc->status));
		return;
	}
	server_spare_put(spare);
	rtrs_conn_sent(&conn->base);
}

/**
 * server_spare_dequeue() - take an operation out of the queue
 * @path:	its path
 *
 * Context: any.
 * Return: the first one of the path, or NULL.
 */
struct server_op *server_spare_dequeue(struct server_path *path)
{
	struct rtrs_server_session *sess = path->sess;
	struct server_op *op, *found = NULL;
	unsigned long flags;

	spin_lock_irqsave(&sess->spare_lock, flags);
	list_for_each_entry(op, &sess->spare_queue, parked) {
		if (op->conn->path == path) {
			list_del_init(&op->parked);
			found = op;
			break;
		}
	}
	spin_unlock_irqrestore(&sess->spare_lock, flags);
	return found;
}

/**
 * server_spare_release() - give back what the operations of a path have left
 * @path:	drained, without operations
 */
void server_spare_release(struct server_path *path)
{
	struct rtrs_server_session *sess = path->sess;
	u32 i;

	for (i = 0; i < sess->max_spares; i++)
		if (READ_ONCE(sess->spare[i].path) == path)
			server_spare_put(&sess->spare[i]);
}

static int grow(struct rtrs_server_session *sess)
{
	struct rtrs_server *srv = sess->srv;
	u32 n = sess->nr_spares;
	int err;

	mutex_lock(&sess->build);
	err = server_claim(srv, &sess->claimed, sess->max_io_size);
	if (err)
		goto unlock;
	err = server_buf_add(sess, sess->max_io_size, DMA_TO_DEVICE,
			     NUMA_NO_NODE);
	if (err) {
		server_unclaim(srv, &sess->claimed, sess->max_io_size);
		goto unlock;
	}
	sess->spare[n].buf = &sess->buf[sess->nr_bufs - 1];
	WRITE_ONCE(sess->nr_spares, n + 1);
	/* Those that do not exist count as taken. */
	server_spare_put(&sess->spare[n]);
unlock:
	mutex_unlock(&sess->build);
	return err;
}

/**
 * server_spare_grow() - make more spare buffers
 * @work:	rtrs_server_session.grow_work
 */
void server_spare_grow(struct work_struct *work)
{
	struct rtrs_server_session *sess =
		container_of(work, struct rtrs_server_session, grow_work);
	unsigned int flags = memalloc_noio_save();
	int err = 0;

	while (!err && !list_empty_careful(&sess->spare_queue) &&
	       sess->nr_spares < sess->max_spares)
		err = grow(sess);
	memalloc_noio_restore(flags);
	if (err)
		pr_info_ratelimited("%s: no memory for more than %u private buffers, requests wait for them\n",
				    sess->name, sess->nr_spares);
}
