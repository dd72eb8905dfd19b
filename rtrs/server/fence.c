// SPDX-License-Identifier: GPL-2.0
/*
 * The fence: nothing old runs beside anything new.
 *
 * A client that loses its last path ends its requests and then comes back, over
 * the same path or another one.  What it sends then must not meet the requests
 * it has given up: they could overwrite newer data with older, or read from a
 * chunk that holds another request by now.  So a path gets its keys (INFO_RSP)
 * only when
 *
 *   - every operation that came over a path that is not CONNECTED has ended, the
 *     path's queue pairs are drained and its keys are gone, and
 *   - every other path of the session either was alive when the client asked,
 *     or has no operation and begins none before it is known to be alive.
 *
 * The second half is there because the client may have given a path up that we
 * still believe in.  Whoever raises the fence *doubts* all other paths: a
 * heartbeat message goes out on each, and its completion proves that the
 * client's end of that path exists, since a client ends the requests of a path
 * only after its queue pairs are gone.  Until then the path is suspect: its
 * operations count as those of a lost path, and requests that arrive are held,
 * with their buffer ids busy.  If the message fails, the path is closed and
 * they are dropped.  On a healthy path all of this takes a round trip.
 *
 * Both paths are doubted as well when a request arrives over one of them that is
 * still under way over the other, and when a path with the same addresses is asked for.
 *
 * With always_invalidate there is one more thing to care for: as long as a
 * session has one path, large requests run in the chunk itself, the key of which
 * is void (io.c).  A second path brings a second key.  From the moment it is
 * announced (rtrs_server_session.many) such requests are copied; those under way
 * are waited for a little.  Those that take longer keep their chunk: the new path
 * uses another one for these ids (server_chunk()), so its key leads elsewhere.
 *
 * How it waits.  info_work looks for paths and operations of the wrong kind, each
 * operation under its lock.  If there are any it leaves, and is run again by
 * their ends (server_fence_kick()) or, for safety, once a second.  Nobody else is kept
 * waiting.  After SERVER_FENCE_MS the path is closed and the client may try
 * again: a disk that hangs may do so for long.
 *
 * Why no operation slips through.  A request's id is marked busy and its path is
 * looked at in one section of op.lock (server_op_take()); the fence first makes
 * sure that all other paths are closing or suspect, and then takes every
 * op.lock.  So it either sees the operation, or the operation sees what the
 * fence did and is held or dropped.  The same is true for operations that begin
 * later, having waited (server_op_admit()).
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/mm.h>
#include <linux/slab.h>

#include "server.h"
#include "trace.h"

/*
 * Doubts
 */

static void probe_send(struct server_path *path)
{
	struct ib_rdma_wr wr = {
		.wr.wr_cqe	= &path->probe_cqe,
		.wr.opcode	= IB_WR_RDMA_WRITE_WITH_IMM,
		.wr.send_flags	= IB_SEND_SIGNALED,
		.wr.ex.imm_data	= cpu_to_be32(rtrs_imm(RTRS_IMM_HB_MSG, 0)),
	};
	unsigned long flags;

	if (!rtrs_conn_send(&path->conns[0]->base, &wr.wr, &wr.wr, 1, true))
		return;
	/* No room: conn_sent() tries again.  Dead: the close work ends it. */
	spin_lock_irqsave(&path->lock, flags);
	path->probing = false;
	spin_unlock_irqrestore(&path->lock, flags);
}

/**
 * server_path_probe() - find out whether a suspect path is alive
 * @path:	the path, referenced
 *
 * Does nothing if that is under way, or if nobody doubts the path.
 *
 * Context: any.
 */
void server_path_probe(struct server_path *path)
{
	unsigned long flags;
	bool send;

	/* Keeps the connection */
	if (!percpu_ref_tryget_live(&path->users))
		return;
	spin_lock_irqsave(&path->lock, flags);
	send = path->suspect && !path->probing &&
	       path->state == SERVER_CONNECTED;
	if (send)
		path->probing = true;
	spin_unlock_irqrestore(&path->lock, flags);
	if (send)
		probe_send(path);
	percpu_ref_put(&path->users);
}

/**
 * server_path_doubt() - the client may have given a path up
 * @path:	the path, referenced
 *
 * Nothing to doubt before INFO_RSP, which must be the first message.
 *
 * Context: any.
 */
void server_path_doubt(struct server_path *path)
{
	unsigned long flags;

	spin_lock_irqsave(&path->lock, flags);
	if (path->state == SERVER_CONNECTED && path->answered) {
		WRITE_ONCE(path->suspect, true);
		/* What is under way was sent too early to prove anything. */
		path->probe_again = path->probing;
	}
	spin_unlock_irqrestore(&path->lock, flags);
	server_path_probe(path);
}

/**
 * server_held_pop() - take the first operation that is held
 * @path:	its path
 *
 * Context: any.
 * Return: the operation, or NULL.
 */
struct server_op *server_held_pop(struct server_path *path)
{
	struct server_op *op;
	unsigned long flags;

	spin_lock_irqsave(&path->lock, flags);
	op = list_first_entry_or_null(&path->held, struct server_op, parked);
	if (op)
		list_del_init(&op->parked);
	spin_unlock_irqrestore(&path->lock, flags);
	return op;
}

/* Returns false if there is no reason to hold it (any more). */
static bool hold(struct server_op *op)
{
	struct server_path *path = op->conn->path;
	unsigned long flags;
	bool held;

	spin_lock_irqsave(&path->lock, flags);
	/* After CLOSING the close work has looked here, or is going to. */
	held = path->suspect && path->state == SERVER_CONNECTED;
	if (held)
		list_add_tail(&op->parked, &path->held);
	spin_unlock_irqrestore(&path->lock, flags);
	return held;
}

/**
 * server_op_admit() - begin an operation whose id is taken, or hold or drop it
 * @op:		the operation, stage OP_NEXT or OP_HELD
 *
 * Context: process context of a completion queue or work; must not wait.
 */
void server_op_admit(struct server_op *op)
{
	struct server_path *path = op->conn->path;
	unsigned long flags;
	bool up, trusted;

	do {
		spin_lock_irqsave(&op->lock, flags);
		up = server_path_up(path);
		trusted = server_path_trusted(path);
		WRITE_ONCE(op->stage, trusted ? OP_RUNNING : OP_HELD);
		spin_unlock_irqrestore(&op->lock, flags);
		if (!up) {
			server_op_drop(op);
			return;
		}
		if (trusted) {
			server_op_start(op);
			return;
		}
	} while (!hold(op));
}

static void probe_done(struct ib_cq *cq, struct ib_wc *wc)
{
	struct server_path *path = container_of(wc->wr_cqe, struct server_path,
						probe_cqe);
	struct server_op *op;
	unsigned long flags;
	bool trusted;

	if (wc->status != IB_WC_SUCCESS) {
		server_path_close(path, ib_wc_status_msg(wc->status));
		return;
	}
	rtrs_conn_sent(&path->conns[0]->base);
	rtrs_conn_alive(&path->conns[0]->base);
	spin_lock_irqsave(&path->lock, flags);
	trusted = !path->probe_again;
	path->probing = false;
	path->probe_again = false;
	WRITE_ONCE(path->suspect, !trusted);
	spin_unlock_irqrestore(&path->lock, flags);
	trace_rtrs_server_probed(path, trusted);

	if (!trusted) {
		server_path_probe(path);
		return;
	}
	/*
	 * If it is doubted again meanwhile they are held again, until the next
	 * probe, which this very queue has to complete.
	 */
	while (server_path_trusted(path) && (op = server_held_pop(path)))
		server_op_admit(op);
	server_fence_kick(path->sess);
}

/**
 * server_fence_init() - prepare a path
 * @path:	new path
 */
void server_fence_init(struct server_path *path)
{
	path->probe_cqe.done = probe_done;
	INIT_LIST_HEAD(&path->held);
	INIT_LIST_HEAD(&path->fence_entry);
}

/*
 * The fence
 */

/**
 * server_fence_raise() - a path wants to be CONNECTED
 * @path:	the path, its setup lock is held; to be followed by
 *		server_fence_check()
 *
 * Context: process context, sleeps.
 */
void server_fence_raise(struct server_path *path)
{
	struct rtrs_server_session *sess = path->sess;
	struct server_path *other;

	spin_lock_irq(&sess->fence_lock);
	list_add(&path->fence_entry, &sess->fenced);
	WRITE_ONCE(sess->nr_fenced, sess->nr_fenced + 1);
	spin_unlock_irq(&sess->fence_lock);

	mutex_lock(&sess->srv->lock);
	list_for_each_entry(other, &sess->paths, entry)
		if (other != path)
			server_path_doubt(other);
	mutex_unlock(&sess->srv->lock);
	path->fence_end = jiffies + msecs_to_jiffies(SERVER_FENCE_MS);
}

/* Under op.lock: does it keep a new path waiting? */
static bool in_the_way(const struct server_op *op)
{
	if (!op->conn)
		return false;
	return READ_ONCE(op->stage) != OP_HELD &&
	       !server_path_trusted(op->conn->path);
}

/* Paths that are closing and may still be reached; one of them as text */
static u32 count_paths(struct server_path *path, char *label)
{
	struct rtrs_server_session *sess = path->sess;
	struct server_path *other;
	u32 n = 0;

	mutex_lock(&sess->srv->lock);
	list_for_each_entry(other, &sess->paths, entry)
		if (READ_ONCE(other->state) == SERVER_CLOSING &&
		    READ_ONCE(other->has_keys) && !n++)
			strscpy(label, other->label, RTRS_PATH_STRLEN);
	mutex_unlock(&sess->srv->lock);
	return n;
}

/* From here on all large requests expect this path's keys to be valid. */
static void expect_keys(struct server_path *path)
{
	struct rtrs_server_session *sess = path->sess;

	mutex_lock(&sess->lock);
	if (!path->has_keys) {
		if (sess->nr_keys++)
			WRITE_ONCE(sess->many, true);
		WRITE_ONCE(path->has_keys, true);
	}
	mutex_unlock(&sess->lock);
}

/* Operations that are in the way; the path of one of them as text */
static u32 count_ops(struct rtrs_server_session *sess, char *label, u32 *voids)
{
	struct server_op *op;
	u32 id, n = 0;

	*voids = 0;
	for (id = 0; id < sess->depth; id++) {
		op = server_op(sess, id);
		spin_lock_irq(&op->lock);
		if (in_the_way(op) && !n++)
			strscpy(label, op->conn->path->label, RTRS_PATH_STRLEN);
		*voids += op->conn && op->voids;
		spin_unlock_irq(&op->lock);
		cond_resched();
	}
	return n;
}

/**
 * server_fence_check() - may a path get its keys now?
 * @path:	the path; server_fence_raise() was called
 *
 * Context: process context, sleeps.
 * Return: 0; -EAGAIN: info_work will run again; -ETIMEDOUT: never.
 */
int server_fence_check(struct server_path *path)
{
	char label[RTRS_PATH_STRLEN];
	long left = path->fence_end - jiffies;
	long void_left = left - msecs_to_jiffies(SERVER_FENCE_MS -
						 SERVER_VOID_MS);
	u32 paths, ops = 0, voids = 0;

	paths = count_paths(path, label);
	if (!paths) {
		expect_keys(path);
		ops = count_ops(path->sess, label, &voids);
	}
	trace_rtrs_server_fence(path, paths, ops, voids);
	if (!paths && !ops) {
		if (voids && void_left > 0)
			left = void_left;
		else
			return 0;
	}
	if (left > 0) {
		queue_delayed_work(server_info_wq, &path->info_work,
				   min_t(long, left, HZ));
		return -EAGAIN;
	}
	if (paths)
		path_err(path, "not connected: the requests of %u lost paths, such as %s, are still being worked on after %u ms\n",
			 paths, label, SERVER_FENCE_MS);
	else
		path_err(path, "not connected: %u requests of lost paths, such as %s, are still being worked on after %u ms\n",
			 ops, label, SERVER_FENCE_MS);
	return -ETIMEDOUT;
}

/**
 * server_fence_pass() - a path gets its keys
 * @path:	the path; server_fence_check() returned 0
 *
 * Context: process context, sleeps.
 * Return: 0, -ENOMEM or what the device said.
 */
int server_fence_pass(struct server_path *path)
{
	struct rtrs_server_session *sess = path->sess;
	struct server_op *op;
	bool avoid;
	u32 id;
	int err;

	server_fence_leave(path);
	for (id = 0; id < sess->depth; id++) {
		op = server_op(sess, id);
		spin_lock_irq(&op->lock);
		avoid = op->conn && op->voids;
		spin_unlock_irq(&op->lock);
		err = avoid ? server_alt_chunk(path, id) : 0;
		if (err)
			return err;
		cond_resched();
	}
	return 0;
}

/**
 * server_fence_leave() - a path does not wait any more
 * @path:	the path; may never have waited
 *
 * Context: process context.
 */
void server_fence_leave(struct server_path *path)
{
	struct rtrs_server_session *sess = path->sess;

	spin_lock_irq(&sess->fence_lock);
	if (!list_empty(&path->fence_entry)) {
		list_del_init(&path->fence_entry);
		WRITE_ONCE(sess->nr_fenced, sess->nr_fenced - 1);
	}
	spin_unlock_irq(&sess->fence_lock);
}

/**
 * server_fence_kick() - let the paths that wait look again
 * @sess:	their session
 *
 * Context: any.
 */
void server_fence_kick(struct rtrs_server_session *sess)
{
	struct server_path *path;
	unsigned long flags;

	if (!READ_ONCE(sess->nr_fenced))
		return;
	spin_lock_irqsave(&sess->fence_lock, flags);
	list_for_each_entry(path, &sess->fenced, fence_entry)
		mod_delayed_work(server_info_wq, &path->info_work, 0);
	spin_unlock_irqrestore(&sess->fence_lock, flags);
}
