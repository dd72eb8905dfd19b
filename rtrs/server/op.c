// SPDX-License-Identifier: GPL-2.0
/*
 * Operations: who uses a buffer id.
 *
 * An operation stands for a buffer id of the session.  It is taken by the
 * receive completion of a request, before anything that may wait, and given
 * back when its response has been laid out or is discarded; in between it
 * belongs to that request alone, whatever path the id is used on:
 *
 *   receive --+--> RUNNING --> user --> ANSWER --> response posted, id free
 *             |     ^  |  |      ^
 *             v     |  |  +----> | SPARE --> PLACED        a buffer was missing
 *   doubted: HELD --+  |         |
 *             ^        +-------> | INVALIDATE --> INVALIDATING
 *             |
 *   copy --> NEXT
 *
 * A second request with the same id over the same path is against the protocol
 * and closes the path.  Over another path it is the copy of a request whose
 * first path the client has given up: it waits in next_conn until the earlier
 * operation has ended, so the two never run side by side or in wrong order.
 * The copy's bytes have overwritten the earlier request's, in the chunk; they
 * are the same bytes, and the header, which may differ, has been copied.  No
 * other request can have this id before one of the two was answered.
 *
 * A request of a path that is not CONNECTED any more is dropped, one of a path
 * that the client may have given up is held: see fence.c.
 *
 * While it has an operation a path cannot go away: server_path.users.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/mm.h>
#include <linux/slab.h>

#include "server.h"
#include "trace.h"

/* Under op.lock: the path of what the op belongs to now has been given up. */
static struct server_path *queue_copy(struct server_op *op,
				      struct server_conn *conn, u32 off,
				      struct server_conn **given_up)
{
	struct server_path *earlier = op->conn->path;

	/* Of several paths the client has given up all but this one. */
	*given_up = op->next_conn;
	op->next_conn = conn;
	op->next_off = off;
	/* As long as we have it, the earlier operation does not hold the path. */
	percpu_ref_get(&earlier->users);
	return earlier;
}

/**
 * server_op_take() - a request for a buffer id has arrived
 * @op:		the id's operation
 * @conn:	where it arrived; the caller holds a reference to the users of
 *		its path, which is the operation's unless %OP_LATE or
 *		%OP_VIOLATION is returned
 * @off:	where its header is
 *
 * Context: any.
 * Return: %OP_TAKEN: to be started; %OP_TAKEN_HELD: to be admitted, see
 * server_op_admit(); %OP_QUEUED: it will be started when an earlier one has
 * ended; %OP_LATE: the path is closing; %OP_VIOLATION: the client broke the
 * protocol.
 */
enum server_taken server_op_take(struct server_op *op, struct server_conn *conn,
				 u32 off)
{
	struct server_path *path = conn->path, *earlier = NULL;
	struct server_conn *given_up = NULL;
	enum server_taken taken = OP_TAKEN;
	unsigned long flags;

	spin_lock_irqsave(&op->lock, flags);
	if (unlikely(!server_path_up(path))) {
		taken = OP_LATE;
	} else if (likely(!op->conn)) {
		op->conn = conn;
		op->off = off;
		op->spare = NULL;
		if (unlikely(READ_ONCE(path->suspect)))
			taken = OP_TAKEN_HELD;
		WRITE_ONCE(op->stage, taken == OP_TAKEN ? OP_RUNNING : OP_HELD);
	} else if (op->conn->path == path ||
		   (op->next_conn && op->next_conn->path == path)) {
		taken = OP_VIOLATION;
	} else {
		earlier = queue_copy(op, conn, off, &given_up);
		taken = OP_QUEUED;
	}
	spin_unlock_irqrestore(&op->lock, flags);

	if (unlikely(earlier)) {
		/*
		 * One of the two has been given up by the client: the earlier,
		 * or the one over which this has arrived long ago.
		 */
		server_path_doubt(earlier);
		server_path_doubt(path);
		percpu_ref_put(&earlier->users);
	}
	if (unlikely(given_up)) {
		/* No answer will come over it: the client must not wait. */
		server_path_close(given_up->path,
				  "its request has come over a third path");
		percpu_ref_put(&given_up->path->users);
	}
	return taken;
}

/**
 * server_op_give_back() - the operation has ended
 * @op:		the operation: its id is free, or goes to the copy that waits
 *
 * The caller's reference to the users of its path stays.
 *
 * Context: any.
 */
void server_op_give_back(struct server_op *op)
{
	struct rtrs_server_session *sess = op->sess;
	unsigned long flags;
	bool waits, kick;

	spin_lock_irqsave(&op->lock, flags);
	/* Not before the lock is held: pairs with server_fence_check(). */
	kick = unlikely(READ_ONCE(sess->nr_fenced)) &&
	       (op->voids || !server_path_trusted(op->conn->path));
	op->seq++;
	op->voids = false;
	op->conn = op->next_conn;
	op->next_conn = NULL;
	waits = op->conn;
	if (unlikely(waits)) {
		op->off = op->next_off;
		op->spare = NULL;
		WRITE_ONCE(op->stage, OP_NEXT);
	}
	spin_unlock_irqrestore(&op->lock, flags);
	if (unlikely(waits))
		queue_work(server_wq, &op->work);
	if (unlikely(kick))
		server_fence_kick(sess);
}

/**
 * server_op_take_back() - undo server_op_give_back()
 * @op:		the operation
 * @conn:	whose it was
 * @seq:	its sequence number then
 *
 * Context: any.
 * Return: whether nobody has had the operation since.
 */
bool server_op_take_back(struct server_op *op, struct server_conn *conn, u32 seq)
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

/**
 * server_op_drop() - end an operation without a response
 * @op:		the operation; its path is closing, which gives its spare buffer
 *		back if something was sent from it
 *
 * Context: any.
 */
void server_op_drop(struct server_op *op)
{
	struct server_path *path = op->conn->path;

	trace_rtrs_server_drop(op);
	/* The path may have to wait long for another operation. */
	if (op->spare && !op->data_sent)
		server_spare_put(op->spare);
	server_op_give_back(op);
	percpu_ref_put(&path->users);
}

/**
 * server_op_claim() - an invalidation was not posted, or will never complete
 * @op:		the operation, its lock is held
 * @conn:	whose it was
 * @seq:	its sequence number then, which tells it from a later one
 * @to:		its stage if the caller gets it
 *
 * Return: whether the caller owns the operation now.
 */
bool server_op_claim(struct server_op *op, struct server_conn *conn, u32 seq,
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
	op->inv_cqe.done = server_invalidate_done;
	INIT_LIST_HEAD(&op->parked);
	INIT_WORK(&op->work, server_op_work);
}

static void abort_lines(struct server_path *path)
{
	struct server_op *op;
	u16 cid;

	while ((op = server_held_pop(path)))
		server_op_drop(op);
	while ((op = server_spare_dequeue(path)))
		server_op_drop(op);
	for (cid = 0; cid < path->cid_num; cid++)
		while (path->conns[cid] &&
		       (op = server_op_unpark(path->conns[cid])))
			server_op_drop(op);
}

/**
 * server_op_abort() - end the operations that only waited
 * @path:	CLOSING, its connections are drained
 *
 * What the user is working on ends with its answer.
 *
 * Context: process context, sleeps.
 */
void server_op_abort(struct server_path *path)
{
	struct rtrs_server_session *sess = path->sess;
	struct server_op *op;
	bool waits, ours;
	u32 id;

	abort_lines(path);
	for (id = 0; id < sess->depth; id++) {
		op = server_op(sess, id);
		spin_lock_irq(&op->lock);
		waits = op->next_conn && op->next_conn->path == path;
		if (waits)
			op->next_conn = NULL;
		/* Posted, but the connection died before: no completion */
		ours = op->conn && op->conn->path == path &&
		       server_op_claim(op, op->conn, op->seq, OP_RUNNING);
		spin_unlock_irq(&op->lock);
		if (waits)
			percpu_ref_put(&path->users);
		if (ours)
			server_op_drop(op);
		cond_resched();
	}
}
