/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What client and server share and no user of the transport sees: protection
 * domains, connections, their end, the heartbeat.  Exported by rtrs-core.ko.
 */
#ifndef RTRS_CORE_H
#define RTRS_CORE_H

#include <linux/kref.h>
#include <linux/list.h>
#include <linux/mutex.h>
#include <linux/spinlock.h>
#include <linux/workqueue.h>
#include <rdma/ib_verbs.h>
#include <rdma/rdma_cm.h>

#include "rtrs/rtrs.h"

/*
 * Protection domains: one per session and device.  A key is valid on every
 * queue pair of its domain, so no two sessions may ever share one.
 */

struct rtrs_domain_pool;

/**
 * struct rtrs_domain - a session's foothold on one device
 * @dev:	the device
 * @pd:		the session's protection domain on it
 * @ref:	one per path on the device
 * @entry:	in @pool
 * @pool:	the session's domains
 *
 * Client and server embed it in what they register once per device.
 */
struct rtrs_domain {
	struct ib_device	*dev;
	struct ib_pd		*pd;
	struct kref		ref;
	struct list_head	entry;
	struct rtrs_domain_pool	*pool;
};

/**
 * struct rtrs_domain_ops - what a side adds to a domain
 * @alloc:	allocate the structure that embeds the domain, zeroed
 * @setup:	@dev and @pd are valid: map and register what is per device
 * @teardown:	undo @setup; not called when that failed
 * @free:	undo @alloc
 *
 * All in process context, under the pool's lock.
 */
struct rtrs_domain_ops {
	struct rtrs_domain *(*alloc)(struct rtrs_domain_pool *pool);
	int	(*setup)(struct rtrs_domain *dom);
	void	(*teardown)(struct rtrs_domain *dom);
	void	(*free)(struct rtrs_domain *dom);
};

struct rtrs_domain_pool {
	struct mutex			lock;	/* list and references */
	struct list_head		domains;
	const struct rtrs_domain_ops	*ops;
};

void rtrs_domain_pool_init(struct rtrs_domain_pool *pool,
			   const struct rtrs_domain_ops *ops);
struct rtrs_domain *rtrs_domain_get(struct rtrs_domain_pool *pool,
				    struct ib_device *dev);
void rtrs_domain_put(struct rtrs_domain *dom);
bool rtrs_avoids_reg_mr(const struct ib_device *dev);

/*
 * Connections: one RC queue pair with its CM id and completion queue.
 *
 * Sending.  Work requests are appended to a chain and posted together.  Every
 * work request carries a cqe: &conn->sq_cqe for memory we own for ever, the
 * owner's own cqe where the owner must know that the HCA is done.  Send-queue
 * space is counted in credits, one per work request.  A work request whose cqe
 * is the owner's must be the last of its group, must be flagged
 * IB_SEND_SIGNALED by the owner, and its handler must call rtrs_conn_sent()
 * first.  Groups that end in &conn->sq_cqe are signalled by the connection as
 * often as needed to get credits back.  After an error completion credits no
 * longer matter: the connection is dead.
 */

struct rtrs_conn;

/**
 * struct rtrs_conn_ops - how a connection tells its path
 * @error:	the connection is dead (post failed, completion error); any
 *		context, may be called many times
 * @sent:	credits came back; any context; may be NULL
 * @poll:	a completion has been due since the last heartbeat: poll the queue,
 *		its user may have stopped to; process context; for polled queues
 */
struct rtrs_conn_ops {
	void	(*error)(struct rtrs_conn *conn, const char *what, int err);
	void	(*sent)(struct rtrs_conn *conn);
	void	(*poll)(struct rtrs_conn *conn);
};

/**
 * struct rtrs_conn_params - sizes of a queue pair
 * @pd:		protection domain
 * @poll_ctx:	who polls the completion queue
 * @comp_vector: completion vector hint, taken modulo what the device has; -1: any,
 *		if the queue is not polled directly
 * @max_send_wr: work requests; one more is created for draining
 * @max_recv_wr: receives; one more is created for draining
 * @max_send_sge: scatter entries of a work request
 */
struct rtrs_conn_params {
	struct ib_pd		*pd;
	enum ib_poll_context	poll_ctx;
	int			comp_vector;
	u32			max_send_wr;
	u32			max_recv_wr;
	u32			max_send_sge;
};

/**
 * struct rtrs_conn - a connection
 * @ops:	callbacks of the path that embeds it
 * @cid:	index in the path
 * @cm_id:	set by the owner
 * @met:	set by the owner: the peer was asked, or has asked, for @cm_id
 * @unsaid:	the peer was not told of the end
 * @dev_gone:	set by the owner's CM handler when @cm_id's device is removed
 * @qp:		NULL until rtrs_conn_create()
 * @cq:		its completion queue
 * @poll_ctx:	who polls it
 * @nr_cqe:	entries reserved in @cq
 * @seen:	something arrived since the heartbeat last looked; written only
 *		when it was false so that the line stays shared
 * @sq_cqe:	completion of sends nobody else cares about
 * @sq_lock:	everything below
 * @sq_size:	credits there are
 * @sq_free:	credits left
 * @sq_open:	work requests since the last signalled one
 * @sq_batch:	signal at the latest after so many
 * @sq_dead:	no more posts
 * @chain:	first work request not posted yet
 * @chain_tail:	the last one
 * @retire:	ring: work requests each signalled completion gives back
 * @retire_mask: its entries, a power of two, less one
 * @retire_head: next to be written
 * @retire_tail: next to complete
 * @stall_tail:	@retire_tail at the last heartbeat
 * @stall_due:	a completion was due then
 * @stall_since: the first heartbeat that saw the one due that has not come; jiffies
 */
struct rtrs_conn {
	const struct rtrs_conn_ops *ops;
	u16			cid;
	struct rdma_cm_id	*cm_id;
	bool			met;
	bool			unsaid;
	bool			dev_gone;
	struct ib_qp		*qp;
	struct ib_cq		*cq;
	enum ib_poll_context	poll_ctx;
	u32			nr_cqe;
	bool			seen;
	struct ib_cqe		sq_cqe;

	spinlock_t		sq_lock ____cacheline_aligned_in_smp;
	u32			sq_size;
	u32			sq_free;
	u32			sq_open;
	u32			sq_batch;
	bool			sq_dead;
	struct ib_send_wr	*chain;
	struct ib_send_wr	*chain_tail;
	u16			*retire;
	u32			retire_mask;
	u32			retire_head;
	u32			retire_tail;
	u32			stall_tail;
	bool			stall_due;
	unsigned long		stall_since;
};

void rtrs_conn_init(struct rtrs_conn *conn, const struct rtrs_conn_ops *ops,
		    u16 cid);
int rtrs_conn_create(struct rtrs_conn *conn, const struct rtrs_conn_params *p);
void rtrs_conn_drain(struct rtrs_conn *conn);
void rtrs_conn_destroy(struct rtrs_conn *conn);
int rtrs_conn_send(struct rtrs_conn *conn, struct ib_send_wr *first,
		   struct ib_send_wr *last, unsigned int nr, bool flush);
void rtrs_conn_flush(struct rtrs_conn *conn);
void rtrs_conn_sent(struct rtrs_conn *conn);
int rtrs_conn_send_imm(struct rtrs_conn *conn, u32 imm);
int rtrs_conn_post_recv_empty(struct rtrs_conn *conn, struct ib_cqe *cqe,
			      unsigned int nr);

bool rtrs_cm_link_lost(const struct rdma_cm_id *cm_id);
void rtrs_conn_disconnect(struct rtrs_conn *conn);
void rtrs_conn_destroy_id(struct rtrs_conn *conn);

/**
 * rtrs_conn_alive() - something arrived from the peer
 * @conn:	connection it arrived on
 *
 * Context: any.
 */
static inline void rtrs_conn_alive(struct rtrs_conn *conn)
{
	if (!READ_ONCE(conn->seen))
		WRITE_ONCE(conn->seen, true);
}

/*
 * Heartbeat: one per path, on its service connection.  It tells whether the
 * peer lives, and looks after send queues that have stopped.
 */

/*
 * A send queue that completes nothing for so long is given up, however often
 * the heartbeat ticks: the 256 work requests of a batch may carry 1 MiB each,
 * for which the slowest link worth having, of 100 Mbit/s, takes 22 s.
 */
#define RTRS_SQ_PATIENCE_MS	30000

struct rtrs_hb;

/**
 * struct rtrs_hb_ops - a path's side of its heartbeat
 * @conn:	the path's connections, counted from 0; NULL behind the last one
 * @send:	send one heartbeat message
 * @dead:	nothing arrived for too long; called once
 *
 * All in process context of the heartbeat's work.
 */
struct rtrs_hb_ops {
	struct rtrs_conn *(*conn)(struct rtrs_hb *hb, unsigned int cid);
	void		(*send)(struct rtrs_hb *hb);
	void		(*dead)(struct rtrs_hb *hb);
};

/* Constants of mainline; not negotiated */
#define RTRS_HB_INTERVAL_MS	5000
#define RTRS_HB_MAX_MISSED	5

struct rtrs_hb {
	struct delayed_work		work;
	const struct rtrs_hb_ops	*ops;
	unsigned int			interval_ms;
	unsigned int			max_missed;
	unsigned int			missed;
};

void rtrs_hb_init(struct rtrs_hb *hb, const struct rtrs_hb_ops *ops,
		  unsigned int interval_ms, unsigned int max_missed);
void rtrs_hb_start(struct rtrs_hb *hb);
void rtrs_hb_stop(struct rtrs_hb *hb);

#endif /* RTRS_CORE_H */
