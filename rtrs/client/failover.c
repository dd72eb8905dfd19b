// SPDX-License-Identifier: GPL-2.0
/*
 * Failover: what a lost path leaves behind goes on over another one.
 *
 * It begins when the path's queue pairs are in error and drained, so that
 * nothing of ours can leave over them any more, and no completion handler of
 * the path runs.  From then on this task alone touches the slots that are busy
 * on it:
 *
 *	answered	ends with the answer; what was awaited beyond it (the own
 *			send, an invalidation) cannot come any more, nor must it
 *	unanswered	its id is held (ids.c); its memory is taken back from the
 *			dead path's device; then it is sent over another path
 *			under the same id, or ends with -ECONNABORTED if none is
 *			connected
 *
 * The same id, because the server orders the copy behind the original by it,
 * and because the same bytes in the same chunk harm nobody.
 *
 * Between the two a slot is not busy but claimed: it is this task's, which is
 * how another path's teardown, the search for idle ids and the user see it.
 * A path that has no room in its send queue at the moment is waited for: a
 * request fails only if no path is connected, or if its user had it expire.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/delay.h>
#include <linux/export.h>

#include "client.h"
#include "trace.h"

#define RETRY_MS	5
#define MAX_NOMEM	2000	/* rounds until a lack of memory is believed */

/* Is a request on this path?  Nobody submits to it any more. */
static bool busy_on(struct client_slot *slot, const struct client_path *path,
		    u32 *state)
{
	bool ret;

	/* Keeps the connection of a request on some other path. */
	rcu_read_lock();
	*state = atomic_read_acquire(&slot->state);
	ret = *state & SLOT_BUSY && READ_ONCE(slot->conn)->path == path;
	rcu_read_unlock();
	return ret;
}

/* Take a request off the path; true if it is still to be answered. */
static bool detach(struct client_path *path, struct client_slot *slot,
		   u32 state, bool *dropped)
{
	/* All done but not finished: an answer to what was never sent. */
	bool answered = state & SLOT_RESPONDED &&
			(state & SLOT_DONE) != SLOT_DONE;

	list_del_init(&slot->inv_entry);
	if (!(state & SLOT_INVALID)) {
		/* Its key is good on every connection of the domain. */
		client_domain_drop_mr(path->dom, slot->tag);
		*dropped = true;
	}
	client_slot_unmap(slot);
	atomic_dec(&slot->conn->inflight);
	if (answered) {
		trace_rtrs_client_complete(slot, client_slot_error(state));
		client_slot_end(slot, client_slot_error(state), true);
		return false;
	}
	client_ids_hold(path, slot);
	atomic_set_release(&slot->state, state & SLOT_GEN_MASK);
	return true;
}

/* Send one request again; -EAGAIN and -ENOMEM: later. */
static int move(struct client_path *from, struct rtrs_request *req)
{
	if (READ_ONCE(from->clt->closing))
		return -ECONNABORTED;
	if (READ_ONCE(req->expired))
		return -ETIMEDOUT;
	return client_submit_any(from->clt, req, true, from);
}

static void give_up(struct client_path *from, struct client_slot *slot,
		    struct rtrs_request *req, int err)
{
	WRITE_ONCE(slot->req, req);
	/* Where it was tried last may not exist any more. */
	WRITE_ONCE(slot->conn, client_conn_of(from, req->queue));
	trace_rtrs_client_complete(slot, err);
	client_slot_end(slot, err, false);
}

/* One round over what is left; true if there is, and for lack of memory only */
static bool move_all(struct client_path *from, struct list_head *left,
		     bool nomem_is_final)
{
	struct client_slot *slot, *next;
	bool nomem = true;
	LIST_HEAD(again);

	list_for_each_entry_safe(slot, next, left, inv_entry) {
		struct rtrs_request *req = slot->req;
		int err;

		/* Once it is sent its entry may be in use there. */
		list_del_init(&slot->inv_entry);
		err = move(from, req);
		nomem &= err == -ENOMEM;
		if (err == -EAGAIN || (err == -ENOMEM && !nomem_is_final)) {
			WRITE_ONCE(slot->req, req);
			list_add_tail(&slot->inv_entry, &again);
		} else if (err) {
			give_up(from, slot, req, err);
		}
	}
	list_splice(&again, left);
	return nomem;
}

/**
 * client_abort_requests() - see to the requests of a lost path
 * @path:	drained; nobody submits to it and no completion handler runs
 *
 * When it returns no request is on the path, and the peer can write no user
 * memory over it.
 *
 * Context: process context, sleeps; under the path's op_lock, after
 * client_ids_enter() and a grace period.
 */
void client_abort_requests(struct client_path *path)
{
	struct rtrs_client *clt = path->clt;
	struct client_domain *dom = path->dom;
	unsigned int rounds = 0, moved = 0;
	bool dropped = false;
	LIST_HEAD(left);
	u32 tag, state;

	for (tag = 0; client_ready(clt) && tag < clt->nr_tags; tag++) {
		struct client_slot *slot = &clt->slot[tag];

		if (!busy_on(slot, path, &state) ||
		    !detach(path, slot, state, &dropped))
			continue;
		list_add_tail(&slot->inv_entry, &left);
		moved++;
	}
	/* Another path on the device goes on and needs the regions. */
	if (dropped && kref_read(&dom->base.ref) > 1)
		client_domain_refill_soon(dom, true);
	if (moved) {
		client_session_loss(clt);
		/* At the end of the session nothing is sent again. */
		if (!READ_ONCE(clt->closing))
			client_await_farewell(path);
	}
	while (!list_empty(&left)) {
		rounds = move_all(path, &left, rounds > MAX_NOMEM) ?
			 rounds + 1 : 0;
		if (!list_empty(&left))
			msleep(RETRY_MS);
	}
	if (moved)
		path_log(info, path, "%u requests were not answered", moved);
}

/**
 * rtrs_client_expire() - a request takes too long
 * @clt:	the session
 * @req:	submitted, and still its user's
 * @how:	what shall become of it
 *
 * The path it is on is declared bad; what has to happen happens when that has
 * been drained.  Nothing happens to a request that has been answered.
 *
 * Context: any.
 */
void rtrs_client_expire(struct rtrs_client *clt, struct rtrs_request *req,
			enum rtrs_expire how)
{
	struct client_slot *slot;
	struct client_conn *conn;

	if (!client_ready(clt) || req->tag >= clt->nr_tags)
		return;
	slot = &clt->slot[req->tag];
	if (how == RTRS_EXPIRE_END)
		WRITE_ONCE(req->expired, true);
	/* Keeps the connection, also of a request that has just moved on. */
	rcu_read_lock();
	if (atomic_read_acquire(&slot->state) & SLOT_BUSY &&
	    READ_ONCE(slot->req) == req) {
		conn = READ_ONCE(slot->conn);
		if (how != RTRS_EXPIRE_MOVE ||
		    client_any_connected(clt, conn->path))
			client_path_error(conn->path, -ETIMEDOUT,
					  "connection %u: a request was not answered in time",
					  conn->base.cid);
	}
	rcu_read_unlock();
}
EXPORT_SYMBOL_GPL(rtrs_client_expire);
