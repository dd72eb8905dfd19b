// SPDX-License-Identifier: GPL-2.0
/*
 * Heartbeat: tells a dead peer from an idle one.
 *
 * One work per path runs once per interval.  If anything at all arrived since
 * the last run the peer is alive, the count of misses starts again and one
 * HB_MSG goes out, which the peer answers; else the miss is counted.  More than
 * max_missed of them and the path is dead: with the defaults 30 to 35 seconds
 * after the last sign of life.
 *
 * The peer may be alive and a send queue dead all the same, without an error:
 * every connection on which nothing has completed for RTRS_SQ_PATIENCE_MS
 * though it should have is reported to its owner.
 *
 * The work belongs to the path that embeds it: rtrs_hb_start() when the path
 * is up, rtrs_hb_stop() first thing when it comes down.  The dead callback
 * runs in the work itself and so must not stop it, only start the recovery.
 */
#include <linux/module.h>
#include <linux/workqueue.h>

#include "internal.h"

/* Reclaim may wait for I/O that only a dead path's failover completes. */
static struct workqueue_struct *hb_wq;

static void hb_arm(struct rtrs_hb *hb)
{
	queue_delayed_work(hb_wq, &hb->work, msecs_to_jiffies(hb->interval_ms));
}

static void look_after(struct rtrs_conn *conn)
{
	unsigned int ms = rtrs_conn_stalled(conn);

	if (ms && conn->poll_ctx == IB_POLL_DIRECT)
		conn->ops->poll(conn);
	if (ms > RTRS_SQ_PATIENCE_MS)
		conn->ops->error(conn, "the send queue stands still",
				 -ETIMEDOUT);
}

/* Look at every connection; did anything arrive since the last time? */
static bool look(struct rtrs_hb *hb)
{
	struct rtrs_conn *conn;
	bool seen = false;
	unsigned int cid;

	for (cid = 0; (conn = hb->ops->conn(hb, cid)); cid++) {
		if (READ_ONCE(conn->seen)) {
			WRITE_ONCE(conn->seen, false);
			seen = true;
		}
		look_after(conn);
	}
	return seen;
}

static void hb_work(struct work_struct *work)
{
	struct rtrs_hb *hb = container_of(work, struct rtrs_hb, work.work);

	if (look(hb))
		hb->missed = 0;
	if (hb->missed > hb->max_missed) {
		hb->ops->dead(hb);
		return;
	}
	if (hb->missed++ == 0)
		hb->ops->send(hb);
	hb_arm(hb);
}

/**
 * rtrs_hb_init() - prepare a path's heartbeat
 * @hb:		the heartbeat
 * @ops:	the path's side
 * @interval_ms: time between two looks, milliseconds
 * @max_missed:	silent looks that are tolerated
 */
void rtrs_hb_init(struct rtrs_hb *hb, const struct rtrs_hb_ops *ops,
		  unsigned int interval_ms, unsigned int max_missed)
{
	hb->ops = ops;
	hb->interval_ms = interval_ms;
	hb->max_missed = max_missed;
	INIT_DELAYED_WORK(&hb->work, hb_work);
}
EXPORT_SYMBOL_GPL(rtrs_hb_init);

/**
 * rtrs_hb_start() - begin to watch the peer
 * @hb:		the heartbeat; not running
 *
 * Context: any.
 */
void rtrs_hb_start(struct rtrs_hb *hb)
{
	hb->missed = 0;
	hb_arm(hb);
}
EXPORT_SYMBOL_GPL(rtrs_hb_start);

/**
 * rtrs_hb_stop() - stop watching; no callback runs when it returns
 * @hb:		the heartbeat; may never have been started
 *
 * Context: process context, sleeps; not from a callback of @hb.
 */
void rtrs_hb_stop(struct rtrs_hb *hb)
{
	cancel_delayed_work_sync(&hb->work);
}
EXPORT_SYMBOL_GPL(rtrs_hb_stop);

int rtrs_hb_module_init(void)
{
	hb_wq = alloc_workqueue("rtrs_hb_wq", WQ_UNBOUND | WQ_MEM_RECLAIM, 0);
	return hb_wq ? 0 : -ENOMEM;
}

void rtrs_hb_module_exit(void)
{
	destroy_workqueue(hb_wq);
}
