// SPDX-License-Identifier: GPL-2.0
/*
 * Which path a request takes, and what the user of a session calls per request.
 *
 * Everything runs under rcu_read_lock(), which is what teardown waits for
 * before it drains: a path seen CONNECTED here keeps its connections until the
 * lock is dropped.  What a choice needs to remember is in struct pick, one per
 * request and on the stack, so that preemption at any point does not matter: a
 * path that could not take the request is not offered again, and the request
 * fails only when every connected path has been tried.
 *
 * No policy writes to memory that all CPUs write to.  Round-robin counts turns
 * per CPU; the loads that min-inflight compares are those of the connections
 * that the request's queue has on each path, which the queue's own CPUs write.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/bitmap.h>
#include <linux/export.h>
#include <linux/rculist.h>

#include "client.h"
#include "trace.h"

/* The choice of a path for one request */
struct pick {
	struct rtrs_client	*clt;
	u16			queue;
	unsigned int		turn;
	DECLARE_BITMAP(tried, RTRS_MAX_PATHS);
};

static bool may_take(const struct pick *pick, struct client_path *path)
{
	return client_path_get_state(path) == CLIENT_CONNECTED &&
	       !test_bit(path->index, pick->tried);
}

/* The paths in turn, whatever their number at the moment */
static struct client_path *pick_in_turn(struct pick *pick)
{
	struct client_path *path, *found = NULL;
	unsigned int n = 0;

	list_for_each_entry_rcu(path, &pick->clt->paths, entry) {
		if (may_take(pick, path)) {
			found = path;
			n++;
		}
	}
	if (n < 2)
		return found;
	n = pick->turn % n;
	list_for_each_entry_rcu(path, &pick->clt->paths, entry) {
		if (!may_take(pick, path))
			continue;
		found = path;
		if (!n--)
			break;
	}
	return found;
}

/* The path with the fewest requests of this queue */
static struct client_path *pick_least(struct pick *pick)
{
	unsigned int nr = max(READ_ONCE(pick->clt->nr_paths), 1U), i = 0;
	struct client_path *path, *found = NULL;
	struct client_load best = {};

	list_for_each_entry_rcu(path, &pick->clt->paths, entry) {
		struct client_conn *conn = client_conn_of(path, pick->queue);
		struct client_load load;

		if (!may_take(pick, path))
			continue;
		load.inflight = atomic_read(&conn->inflight);
		load.latency = READ_ONCE(path->latency);
		load.rank = (pick->turn + i++) % nr;
		if (!found || client_load_better(&load, &best)) {
			found = path;
			best = load;
		}
	}
	return found;
}

/* The path with the fastest heartbeat; a new one is not measured yet, and first */
static struct client_path *pick_fastest(struct pick *pick)
{
	struct client_path *path, *found = NULL;
	s64 best = 0;

	list_for_each_entry_rcu(path, &pick->clt->paths, entry) {
		s64 latency = READ_ONCE(path->latency);

		if (!may_take(pick, path) || (found && latency >= best))
			continue;
		found = path;
		best = latency;
	}
	return found;
}

static struct client_path *pick_path(struct pick *pick)
{
	switch (READ_ONCE(pick->clt->policy)) {
	case CLIENT_ROUND_ROBIN:
		return pick_in_turn(pick);
	case CLIENT_MIN_LATENCY:
		return pick_fastest(pick);
	default:
		return pick_least(pick);
	}
}

/**
 * client_any_connected() - is any path connected at the moment?
 * @clt:	the session
 * @except:	this one does not count; may be NULL
 *
 * Context: any.
 */
bool client_any_connected(struct rtrs_client *clt,
			  const struct client_path *except)
{
	struct client_path *path;
	bool ret = false;

	rcu_read_lock();
	list_for_each_entry_rcu(path, &clt->paths, entry)
		if (path != except &&
		    client_path_get_state(path) == CLIENT_CONNECTED)
			ret = true;
	rcu_read_unlock();
	return ret;
}

static bool queue_ok(const struct rtrs_client *clt, u16 queue)
{
	return queue == RTRS_QUEUE_ADMIN ||
	       queue < clt->nr_queues + clt->nr_poll_queues;
}

static int check_request(struct rtrs_client *clt,
			 const struct rtrs_request *req)
{
	if (req->tag >= clt->nr_tags || !queue_ok(clt, req->queue))
		return -EINVAL;
	if (req->usr_len > CLIENT_MAX_USR || req->nents > clt->max_segments)
		return -EMSGSIZE;
	/* Only a user that breaks its promise gets here. */
	if (WARN_ON_ONCE(atomic_read(&clt->slot[req->tag].state) & SLOT_BUSY))
		return -EBUSY;
	return rtrs_request_fits(req->dir, req->usr_len, req->data_len,
				 clt->max_io_size, clt->max_hdr_size);
}

static void flush(struct client_path *path, u16 queue)
{
	struct rtrs_conn *conn = &client_conn_of(path, queue)->base;

	/* What the caller chained it also sees. */
	if (READ_ONCE(conn->chain))
		rtrs_conn_flush(conn);
}

static void flush_all(struct rtrs_client *clt, u16 queue)
{
	struct client_path *path;

	list_for_each_entry_rcu(path, &clt->paths, entry)
		if (client_path_get_state(path) == CLIENT_CONNECTED)
			flush(path, queue);
}

/**
 * client_submit_any() - submit a request to whichever path the policy chooses
 * @clt:	the session
 * @req:	the request, checked; its slot is free and has an id
 * @last:	post now
 * @from:	the dead path it was on before, or NULL
 *
 * Context: any.
 * Return: 0: the request is in flight, or done. Or what the last path said, but
 * -EAGAIN, or else -ENOMEM, if any said so; -ECONNABORTED: none is connected.
 */
int client_submit_any(struct rtrs_client *clt, struct rtrs_request *req,
		      bool last, struct client_path *from)
{
	u32 seq = clt->slot[req->tag].seq, id = clt->slot[req->tag].id;
	struct pick pick = { .clt = clt, .queue = req->queue };
	bool later = false;
	int err = -ECONNABORTED, ret;
	struct client_path *path;
	u16 tag = req->tag;

	pick.turn = this_cpu_inc_return(*clt->turn);
	rcu_read_lock();
	while ((path = pick_path(&pick))) {
		ret = client_submit_on(path, req, last);
		if (!ret) {
			err = 0;
			if (!from)
				break;
			this_cpu_inc(path->stats->failed_over);
			trace_rtrs_client_failover(from, path, tag, id, seq);
			break;
		}
		__set_bit(path->index, pick.tried);
		/* One that is merely busy is worth waiting for. */
		if (!later || ret == -EAGAIN)
			err = ret;
		later |= ret == -EAGAIN || ret == -ENOMEM;
	}
	rcu_read_unlock();
	return err;
}

/**
 * rtrs_client_submit() - send a request
 * @clt:	the session
 * @req:	the request; belongs to the transport until its done callback
 * @last:	post at once; else the request may wait for the next one with
 *		@last, or for rtrs_client_commit()
 *
 * Context: any; may be called with interrupts disabled.
 * Return: 0: done will be called, or has been. Else nothing was sent and done
 * is not called:
 * -EAGAIN	no room in the send queue: commit, and try again later;
 * -ECONNABORTED no path is connected;
 * -EMSGSIZE	too much data, too many entries or too long a message;
 * -EINVAL	tag, queue or scatter list;
 * -EBUSY	the tag is in use;
 * -ENOMEM	the data could not be mapped.
 */
int rtrs_client_submit(struct rtrs_client *clt, struct rtrs_request *req,
		       bool last)
{
	u16 queue = req->queue;
	struct client_slot *slot;
	int err = -ECONNABORTED;

	if (!client_ready(clt))
		return err;
	err = check_request(clt, req);
	if (err)
		return err;

	slot = &clt->slot[req->tag];
	slot->seq++;
	rcu_read_lock();
	if (unlikely(client_ids_dynamic(clt)) && !client_id_claim(clt, slot)) {
		if (client_any_connected(clt, NULL))
			err = -EAGAIN;
	} else {
		err = client_submit_any(clt, req, last, NULL);
		if (unlikely(err) && slot->claimed)
			client_id_unclaim(clt, slot);
	}
	/* The batch that ends here may have been spread over paths. */
	if (last && READ_ONCE(clt->nr_paths) > 1)
		flush_all(clt, queue);
	rcu_read_unlock();
	return err;
}
EXPORT_SYMBOL_GPL(rtrs_client_submit);

/**
 * rtrs_client_commit() - post what was submitted without last
 * @clt:	the session
 * @queue:	the queue it was submitted to
 *
 * Context: any.
 */
void rtrs_client_commit(struct rtrs_client *clt, u16 queue)
{
	if (!client_ready(clt) || !queue_ok(clt, queue))
		return;
	rcu_read_lock();
	flush_all(clt, queue);
	rcu_read_unlock();
}
EXPORT_SYMBOL_GPL(rtrs_client_commit);

/**
 * client_conn_poll() - handle what has completed, if the queue is a polled one
 * @conn:	a connection of a path that is not being taken down
 *
 * Context: process context; the done callbacks run in it.
 * Return: completions handled.
 */
int client_conn_poll(struct client_conn *conn)
{
	int n;

	/* Completions of one connection are handled in order, by one task. */
	if (conn->base.poll_ctx != IB_POLL_DIRECT ||
	    test_and_set_bit_lock(0, &conn->polling))
		return 0;
	n = ib_process_cq_direct(conn->base.cq, -1);
	clear_bit_unlock(0, &conn->polling);
	return max(n, 0);
}

/**
 * rtrs_client_poll() - handle what has completed on a polled queue
 * @clt:	the session
 * @queue:	one of the polled queues; others have nothing to poll
 *
 * Context: process context; the done callbacks run in it.
 * Return: completions handled.
 */
int rtrs_client_poll(struct rtrs_client *clt, u16 queue)
{
	struct client_path *path;
	int n = 0;

	if (!client_ready(clt) || queue == RTRS_QUEUE_ADMIN ||
	    !queue_ok(clt, queue))
		return 0;
	rcu_read_lock();
	list_for_each_entry_rcu(path, &clt->paths, entry)
		if (client_path_get_state(path) == CLIENT_CONNECTED)
			n += client_conn_poll(client_conn_of(path, queue));
	rcu_read_unlock();
	return n;
}
EXPORT_SYMBOL_GPL(rtrs_client_poll);
