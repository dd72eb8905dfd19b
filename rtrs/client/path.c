// SPDX-License-Identifier: GPL-2.0
/*
 * Paths: life, state machine, recovery, reconnect.
 *
 * Created when the session is opened or a path is added, freed when it is
 * removed or the session is closed (paths.c).  Between these a path connects,
 * gets lost, is torn down and connects again, all under op_lock and in process
 * context: the recovery work, the reconnect work, a store in sysfs.  What happens
 * to it from elsewhere (CM handler, completions, heartbeat) enters through
 * client_path_error(), which only changes the state, wakes the connecting task
 * or queues the recovery work.
 *
 * The state is protected by lock and written by client_path_set_state() alone:
 *
 *	from		to
 *	CONNECTING	CONNECTED, CONNECTING_ERR, CLOSING
 *	CONNECTED	RECONNECTING, CLOSING
 *	CONNECTING_ERR	RECONNECTING, CLOSING
 *	RECONNECTING	CONNECTING, CLOSING
 *	CLOSING		CLOSED
 *	CLOSED		RECONNECTING, DEAD
 *	DEAD		-
 *
 * Submitters look at the state under RCU and post only if it is CONNECTED.
 *
 * Teardown has one order, whoever asks for it, and is idempotent:
 *	1. the state has left CONNECTED; a grace period: nobody posts any more,
 *	   and everybody looks at buffer ids with care
 *	2. the heartbeat stops
 *	3. every connection is told to disconnect and drained: no completion
 *	   handler runs any more, the device touches none of our memory
 *	4. every request of the path is released, then sent over another path or
 *	   completed
 *	5. if it was the last path the user hears that the link is down
 *	6. queue pairs, then the path's share of the domain, then the CM ids are
 *	   destroyed; in this order, because the CM gives a removed device up when
 *	   its ids are gone
 *	7. the next attempt to connect is scheduled, unless the path is closed
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/delay.h>
#include <linux/export.h>
#include <linux/ktime.h>
#include <linux/log2.h>
#include <linux/minmax.h>
#include <linux/sched/mm.h>
#include <linux/slab.h>
#include <linux/uuid.h>

#include "compat/core.h"
#include "client.h"
#include "trace.h"

/* How long the administrator's attempt waits for a server that is closing */
#define PATIENCE_JIFFIES	(3 * HZ)
#define PATIENCE_STEP_MS	200

/* The one place where the state changes. */
static bool set_state_locked(struct client_path *path,
			     enum client_path_state new)
{
	lockdep_assert_held(&path->lock);

	if (!client_path_may(path->state, new))
		return false;
	/* No path comes back to a session that is being closed. */
	if (new == CLIENT_RECONNECTING && READ_ONCE(path->clt->closing))
		new = CLIENT_CLOSING;
	if (!client_path_may(path->state, new))
		return false;
	trace_rtrs_client_state(path, path->state, new);
	/* Who sees the path CONNECTED must see its connections, too. */
	smp_store_release(&path->state, new);
	return true;
}

/**
 * client_path_set_state() - change the state if the table allows it
 * @path:	the path
 * @new:	new state
 *
 * Context: any.
 * Return: whether it was changed.
 */
bool client_path_set_state(struct client_path *path,
			   enum client_path_state new)
{
	unsigned long flags;
	bool done;

	spin_lock_irqsave(&path->lock, flags);
	done = set_state_locked(path, new);
	spin_unlock_irqrestore(&path->lock, flags);
	if (done)
		wake_up(&path->wait);
	return done;
}

/**
 * client_path_get_state() - look at the state
 * @path:	the path
 *
 * Context: any.
 */
enum client_path_state client_path_get_state(struct client_path *path)
{
	/* Pairs with the release in set_state_locked(). */
	return smp_load_acquire(&path->state);
}

/**
 * client_path_error() - something is wrong with a path
 * @path:	the path
 * @err:	errno a connecting task shall get
 * @fmt:	reason in words, without newline
 *
 * The one door for every cause.  Only the first cause counts and is logged:
 * afterwards the path is neither connecting nor connected.
 *
 * Context: any.
 */
void client_path_error(struct client_path *path, int err, const char *fmt, ...)
{
	bool lost = false, failed = false;
	struct va_format vaf;
	unsigned long flags;
	va_list args;

	spin_lock_irqsave(&path->lock, flags);
	if (path->state == CLIENT_CONNECTED) {
		lost = set_state_locked(path, CLIENT_RECONNECTING);
	} else if (path->state == CLIENT_CONNECTING) {
		failed = set_state_locked(path, CLIENT_CONNECTING_ERR);
		path->connect_err = err;
	}
	/* Under the lock: the path is closed only after it was seen here. */
	if (lost)
		queue_work(client_recovery_wq, &path->recovery);
	spin_unlock_irqrestore(&path->lock, flags);
	if (!lost && !failed)
		return;
	wake_up(&path->wait);
	/* A server that is away for days says it once. */
	if (failed && err == path->logged_err &&
	    (path->attempts == path->logged_at ||
	     !is_power_of_2(path->attempts)))
		return;
	if (failed) {
		path->logged_err = err;
		path->logged_at = path->attempts;
	}

	va_start(args, fmt);
	vaf.fmt = fmt;
	vaf.va = &args;
	path_log(err_ratelimited, path, "%s: %pV (%d)",
		 lost ? "connection lost" : "cannot connect", &vaf, err);
	va_end(args);
}

static void teardown(struct client_path *path)
{
	bool was_up = path->up;
	unsigned int noio;

	lockdep_assert_held(&path->op_lock);

	/* The memory that reclaim wants to free may be waiting for us. */
	noio = memalloc_noio_save();
	if (was_up)
		client_ids_enter(path->clt);
	synchronize_rcu();
	rtrs_hb_stop(&path->hb);
	client_disconnect(path);
	client_abort_requests(path);
	if (was_up)
		client_ids_leave(path->clt);
	client_path_down(path);
	client_release(path);
	memalloc_noio_restore(noio);
}

/*
 * About a second after the loss, then twice as long with every failure, up to
 * what the user of the session allows; a quarter more or less each time, so that
 * the clients of a restarted server do not come all at once.
 */
static void schedule_reconnect(struct client_path *path)
{
	u32 limit = max(path->clt->cfg.reconnect_delay, 1U) * MSEC_PER_SEC;
	u32 delay = MSEC_PER_SEC << min(path->backoff, 16U);

	delay = min(delay, limit);
	delay = delay / 4 * 3 + get_random_u32_below(delay / 2);
	trace_rtrs_client_reconnect(path, delay);
	queue_delayed_work(client_connect_wq, &path->reconnect,
			   msecs_to_jiffies(delay));
}

/* Does the server still have the old incarnation?  Mainline, and we */
static bool not_gone_yet(int err)
{
	return err == -ECONNRESET || err == -EBUSY;
}

/*
 * How long to wait after a failure.  A server that refuses because it still has
 * the old incarnation has just begun to close it, and the network is there:
 * waiting begins anew, once.
 */
static void back_off(struct client_path *path, int err)
{
	if (err == -EAGAIN || (not_gone_yet(err) && !path->refused))
		path->backoff = 0;
	else
		path->backoff++;
	path->refused = not_gone_yet(err);
}

/* The first attempt is over, or will not be made. */
static void set_tried(struct client_path *path, int err)
{
	if (path->tried)
		return;
	path->first_err = err;
	path->first_twin = path->twin;
	/* Pairs with the acquire in tried(). */
	smp_store_release(&path->tried, true);
	wake_up(&path->clt->changed);
}

/* To CLOSED, from CLOSING; under op_lock. */
static void finish_close(struct client_path *path)
{
	teardown(path);
	client_path_set_state(path, CLIENT_CLOSED);
	set_tried(path, -ECANCELED);
}

static int attempt(struct client_path *path)
{
	/* As in teardown(): other paths may wait for a lock that is held here. */
	unsigned int noio = memalloc_noio_save();
	int err = client_connect(path);

	memalloc_noio_restore(noio);
	if (err)
		teardown(path);
	return err;
}

/* An attempt is over: connected, or when to try again? */
static void settle_attempt(struct client_path *path, int err)
{
	if (!err) {
		path_log(info, path, "%s", path->tried ? "connected again" :
							 "connected");
		path->attempts = 0;
		path->backoff = 0;
		path->refused = false;
		path->logged_err = 0;
	} else if (client_path_set_state(path, CLIENT_RECONNECTING)) {
		back_off(path, err);
		schedule_reconnect(path);
	}
}

/*
 * Has the server just been asked to let go of what is in the way, or did another
 * path come up or go down meanwhile?
 */
static bool passing(const struct client_path *path, int err)
{
	return err == -EAGAIN || not_gone_yet(err) ||
	       (err == -EEXIST && !path->twin);
}

/*
 * As attempt(), by the administrator, who has taken the path down himself a
 * moment ago: the server may need another moment.
 */
static int patient_attempt(struct client_path *path)
{
	unsigned long deadline = jiffies + PATIENCE_JIFFIES;
	int err;

	for (;;) {
		err = attempt(path);
		if (!passing(path, err) || time_after(jiffies, deadline) ||
		    msleep_interruptible(PATIENCE_STEP_MS))
			return err;
		if (!client_path_set_state(path, CLIENT_RECONNECTING) ||
		    !client_path_set_state(path, CLIENT_CONNECTING))
			return err;
	}
}

/* One attempt from RECONNECTING; under op_lock. */
static int reconnect_once(struct client_path *path, bool patient)
{
	int err;

	if (!client_path_set_state(path, CLIENT_CONNECTING))
		return -EBUSY;
	path->attempts++;
	err = patient ? patient_attempt(path) : attempt(path);
	if (err) {
		spin_lock_irq(&path->lock);
		path->nr_failed++;
		spin_unlock_irq(&path->lock);
	}
	settle_attempt(path, err);
	return err;
}

/* The first attempt of a path that was there when the session was opened */
static void first_try(struct client_path *path)
{
	int err = attempt(path);

	settle_attempt(path, err);
	set_tried(path, err);
}

static void recovery_work(struct work_struct *work)
{
	struct client_path *path = container_of(work, struct client_path,
						recovery);

	mutex_lock(&path->op_lock);
	if (client_path_get_state(path) == CLIENT_RECONNECTING) {
		teardown(path);
		schedule_reconnect(path);
	}
	mutex_unlock(&path->op_lock);
}

static void reconnect_work(struct work_struct *work)
{
	struct client_path *path = container_of(work, struct client_path,
						reconnect.work);
	int max = READ_ONCE(path->clt->max_reconnects);

	mutex_lock(&path->op_lock);
	if (!path->tried) {
		if (client_path_get_state(path) == CLIENT_CONNECTING)
			first_try(path);
		goto unlock;
	}
	if (client_path_get_state(path) != CLIENT_RECONNECTING)
		goto unlock;
	/* Left from an earlier failure, it may come before the recovery. */
	if (path->up)
		teardown(path);
	if (max >= 0 && path->attempts >= (unsigned int)max) {
		path_log(err, path, "given up after %u attempts to reconnect",
			 path->attempts);
		if (client_path_set_state(path, CLIENT_CLOSING))
			finish_close(path);
	} else {
		reconnect_once(path, false);
	}
unlock:
	mutex_unlock(&path->op_lock);
}

/* No work runs or is pending; op_lock must not be held. */
static void cancel_works(struct client_path *path)
{
	cancel_work_sync(&path->recovery);
	cancel_delayed_work_sync(&path->reconnect);
}

static struct rtrs_conn *hb_conn(struct rtrs_hb *hb, unsigned int cid)
{
	struct client_path *path = container_of(hb, struct client_path, hb);

	return cid < path->nr_conns ? &path->conn[cid]->base : NULL;
}

static void hb_send(struct rtrs_hb *hb)
{
	struct client_path *path = container_of(hb, struct client_path, hb);

	WRITE_ONCE(path->hb_sent, ktime_get_ns());
	/* Without room in the send queue there is traffic enough. */
	if (rtrs_conn_send_imm(&path->conn[0]->base,
			       rtrs_imm(RTRS_IMM_HB_MSG, 0)))
		WRITE_ONCE(path->hb_sent, 0);
}

/**
 * client_path_hb_first() - have the latency of a new connection measured
 * @path:	CONNECTED, its heartbeat not started
 *
 * Context: process context; under the path's op_lock.
 */
void client_path_hb_first(struct client_path *path)
{
	WRITE_ONCE(path->latency, 0);
	hb_send(&path->hb);
}

/**
 * client_path_hb_ack() - the server answered a heartbeat
 * @path:	the path
 *
 * Context: completion handler of the service connection.
 */
void client_path_hb_ack(struct client_path *path)
{
	s64 sent = READ_ONCE(path->hb_sent);

	/* An answer that nobody waits for says nothing. */
	if (!sent)
		return;
	WRITE_ONCE(path->hb_sent, 0);
	WRITE_ONCE(path->latency, max_t(s64, ktime_get_ns() - sent, 1));
}

static void hb_dead(struct rtrs_hb *hb)
{
	struct client_path *path = container_of(hb, struct client_path, hb);

	client_path_error(path, -ETIMEDOUT,
			  "nothing heard from the server for %u heartbeats of %u ms",
			  hb->max_missed, hb->interval_ms);
}

static const struct rtrs_hb_ops hb_ops = {
	.conn	= hb_conn,
	.send	= hb_send,
	.dead	= hb_dead,
};

static int alloc_conns(struct client_path *path)
{
	u32 cid;

	path->nr_conns = 1 + path->clt->nr_queues + path->clt->nr_poll_queues;
	path->conn = kvcalloc(path->nr_conns, sizeof(*path->conn), GFP_KERNEL);
	if (!path->conn)
		return -ENOMEM;
	for (cid = 0; cid < path->nr_conns; cid++) {
		struct client_conn *conn = kzalloc(sizeof(*conn), GFP_KERNEL);

		if (!conn)
			return -ENOMEM;
		conn->path = path;
		conn->cpu = cid ? cid - 1 : 0;
		spin_lock_init(&conn->inv_lock);
		INIT_LIST_HEAD(&conn->inv_wait);
		path->conn[cid] = conn;
	}
	return 0;
}

/**
 * client_path_create() - make a path that is not connected
 * @clt:	the session
 * @addr:	where from and where to
 *
 * Context: process context, sleeps.
 * Return: the path, to be freed by client_path_free(), or an ERR_PTR.
 */
struct client_path *client_path_create(struct rtrs_client *clt,
				       const struct rtrs_addr *addr)
{
	struct client_path *path = kzalloc(sizeof(*path), GFP_KERNEL);
	uuid_t uuid;

	if (!path)
		return ERR_PTR(-ENOMEM);
	path->clt = clt;
	path->addr = *addr;
	path->state = CLIENT_CONNECTING;
	uuid_gen(&uuid);
	memcpy(path->uuid, &uuid, sizeof(path->uuid));
	spin_lock_init(&path->lock);
	init_waitqueue_head(&path->wait);
	mutex_init(&path->op_lock);
	INIT_WORK(&path->recovery, recovery_work);
	INIT_DELAYED_WORK(&path->reconnect, reconnect_work);
	rtrs_hb_init(&path->hb, &hb_ops, client_hb_interval_ms,
		     client_hb_max_missed);
	path->nr_up = -1;
	client_path_dirname(path, path->names[0], sizeof(path->names[0]));
	path->name = path->names[0];
	client_path_kobj_init(path);
	path->stats = alloc_percpu(struct client_stats);
	if (!path->stats || alloc_conns(path)) {
		client_path_free(path);
		return ERR_PTR(-ENOMEM);
	}
	return path;
}

/**
 * client_path_free() - end of a path
 * @path:	DEAD or never connected; unreachable, a grace period has passed
 *
 * Context: process context, sleeps.
 */
void client_path_free(struct client_path *path)
{
	u32 cid;

	cancel_works(path);
	client_ids_del_path(path);
	free_percpu(path->stats);
	for (cid = 0; path->conn && cid < path->nr_conns; cid++)
		kfree(path->conn[cid]);
	kvfree(path->conn);
	kvfree(path->chunk);
	kfree(path->info.req);
	kvfree(path->info.rsp);
	kobject_put(&path->kobj);
}

/**
 * client_path_start() - begin to connect a path; it goes on until it succeeds
 * @path:	just created, in its session's list
 *
 * client_path.tried says when the first attempt is over, first_err how.
 *
 * Context: process context.
 */
void client_path_start(struct client_path *path)
{
	queue_delayed_work(client_connect_wq, &path->reconnect, 0);
}

/**
 * client_path_open() - connect a path for the first time, in this context
 * @path:	just created, in its session's list
 *
 * Context: process context, sleeps; a signal ends it.
 * Return: 0 or the reason of the failure; the path is then CONNECTING_ERR or
 * CLOSING and has no connections.
 */
int client_path_open(struct client_path *path)
{
	int err;

	mutex_lock(&path->op_lock);
	err = patient_attempt(path);
	set_tried(path, err);
	mutex_unlock(&path->op_lock);
	if (!err)
		path_log(info, path, "connected");
	return err;
}

/**
 * client_path_reconnect() - the administrator wants the path connected anew
 * @path:	the path
 *
 * If it fails, automatic attempts go on.
 *
 * Context: process context, sleeps.
 * Return: 0; -EBUSY: the path is just connecting, or closing; -ENOTCONN.
 */
int client_path_reconnect(struct client_path *path)
{
	enum client_path_state state = client_path_get_state(path);

	if (state != CLIENT_RECONNECTING &&
	    (!client_path_set_state(path, CLIENT_RECONNECTING) ||
	     client_path_get_state(path) == CLIENT_CLOSING))
		return -EBUSY;
	cancel_works(path);
	mutex_lock(&path->op_lock);
	if (client_path_get_state(path) == CLIENT_RECONNECTING) {
		teardown(path);
		path->attempts = 0;
		path->backoff = 0;
		path->refused = false;
		path->logged_err = 0;
		reconnect_once(path, true);
	}
	mutex_unlock(&path->op_lock);
	state = client_path_get_state(path);
	return state == CLIENT_CONNECTED ? 0 : -ENOTCONN;
}

/**
 * client_path_abandon() - begin to close a path
 * @path:	the path
 *
 * Whoever is connecting it gives up; client_path_close() must follow.
 *
 * Context: any.
 */
void client_path_abandon(struct client_path *path)
{
	client_path_set_state(path, CLIENT_CLOSING);
}

/**
 * client_path_close() - close a path, whatever state it is in
 * @path:	the path
 *
 * When it returns the path has no connection and no request, and nothing but
 * client_path_reconnect() brings it back.  Works that are still pending find it
 * CLOSED.  They are not cancelled here: a client_path_reconnect() that came
 * meanwhile may have queued them.
 *
 * Context: process context, sleeps.
 */
void client_path_close(struct client_path *path)
{
	client_path_set_state(path, CLIENT_CLOSING);
	mutex_lock(&path->op_lock);
	if (client_path_get_state(path) == CLIENT_CLOSING)
		finish_close(path);
	mutex_unlock(&path->op_lock);
}
