// SPDX-License-Identifier: GPL-2.0
/*
 * Which path a request takes, and what the user of a session calls per request.
 *
 * Everything runs under rcu_read_lock(), which is what teardown waits for
 * before it drains: a path seen CONNECTED here keeps its connections until the
 * lock is dropped.  What a choice needs to remember is in struct pick, one per
 * request and on the stack, so that preemption at any point does not matter.
 */
#include <linux/export.h>
#include <linux/rculist.h>

#include "client.h"

/* The choice of a path for one request */
struct pick {
	struct rtrs_client	*clt;
	struct client_path	*last;	/* offered most recently */
};

/* The next path to try, in list order; each path is offered once. */
static struct client_path *pick_next(struct pick *pick)
{
	struct list_head *head = &pick->clt->paths;
	struct client_path *path = pick->last;

	for (;;) {
		path = path ? list_next_or_null_rcu(head, &path->entry,
						    struct client_path, entry) :
			      list_first_or_null_rcu(head, struct client_path,
						     entry);
		if (!path)
			return NULL;
		pick->last = path;
		if (client_path_get_state(path) == CLIENT_CONNECTED)
			return path;
	}
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
	struct pick pick = { .clt = clt };
	struct client_path *path;

	while ((path = pick_next(&pick)))
		flush(path, queue);
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
	struct pick pick = { .clt = clt };
	u16 queue = req->queue;
	struct client_path *path;
	int err = -ECONNABORTED;

	if (!client_ready(clt))
		return err;
	err = check_request(clt, req);
	if (err)
		return err;

	err = -ECONNABORTED;
	rcu_read_lock();
	while ((path = pick_next(&pick))) {
		err = client_submit_on(path, req, last);
		if (!err)
			break;
	}
	/* The batch that ends here may have been spread over paths. */
	if (last && !list_is_singular(&clt->paths))
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

static int poll_conn(struct client_conn *conn)
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
	struct pick pick = { .clt = clt };
	struct client_path *path;
	int n = 0;

	if (!client_ready(clt) || queue == RTRS_QUEUE_ADMIN ||
	    !queue_ok(clt, queue))
		return 0;
	rcu_read_lock();
	while ((path = pick_next(&pick)))
		n += poll_conn(client_conn_of(path, queue));
	rcu_read_unlock();
	return n;
}
EXPORT_SYMBOL_GPL(rtrs_client_poll);
