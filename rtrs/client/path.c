// SPDX-License-Identifier: GPL-2.0
/*
 * Paths: life, state machine, recovery, reconnect.
 *
 * Created by the session's open, freed by its close.  Between these a path
 * connects, gets lost, is torn down and connects again, all under op_lock and
 * in process context: the open itself, the recovery work, the reconnect work, a
 * store in sysfs.  What happens to it from elsewhere (CM handler, completions,
 * heartbeat) enters through client_path_error(), which only changes the state,
 * wakes the connecting task or queues the recovery work.
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
 *	1. the state has left CONNECTED; a grace period: nobody posts any more
 *	2. the heartbeat stops
 *	3. every connection is told to disconnect and drained: no completion
 *	   handler runs any more, the device touches none of our memory
 *	4. every request of the path is released, then completed
 *	5. if it was the last path the user hears that the link is down
 *	6. queue pairs, then the path's share of the domain, then the CM ids are
 *	   destroyed; in this order, because the CM gives a removed device up when
 *	   its ids are gone
 *	7. the next attempt to connect is scheduled, unless the path is closed
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/export.h>
#include <linux/minmax.h>
#include <linux/random.h>
#include <linux/sched/mm.h>
#include <linux/slab.h>
#include <linux/uuid.h>

#include "client.h"

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

	va_start(args, fmt);
	vaf.fmt = fmt;
	vaf.va = &args;
	path_log(err_ratelimited, path, "%s: %pV (%d)",
		 lost ? "connection lost" : "cannot connect", &vaf, err);
	va_end(args);
	wake_up(&path->wait);
}

static void teardown(struct client_path *path)
{
	unsigned int noio;

	lockdep_assert_held(&path->op_lock);

	/* The memory that reclaim wants to free may be waiting for us. */
	noio = memalloc_noio_save();
	synchronize_rcu();
	rtrs_hb_stop(&path->hb);
	client_disconnect(path);
	client_abort_requests(path);
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
	u32 delay = MSEC_PER_SEC << min(path->attempts, 16U);

	delay = min(delay, limit);
	delay = delay / 4 * 3 + get_random_u32_below(delay / 2);
	queue_delayed_work(client_connect_wq, &path->reconnect,
			   msecs_to_jiffies(delay));
}

/* To CLOSED, from CLOSING; under op_lock. */
static void finish_close(struct client_path *path)
{
	teardown(path);
	client_path_set_state(path, CLIENT_CLOSED);
}

static int first_attempt(struct client_path *path)
{
	int err = client_connect(path);

	if (err)
		teardown(path);
	return err;
}

/* One attempt from RECONNECTING; under op_lock. */
static int reconnect_once(struct client_path *path)
{
	unsigned int noio;
	int err;

	if (!client_path_set_state(path, CLIENT_CONNECTING))
		return -EBUSY;
	path->attempts++;
	/* As in teardown() */
	noio = memalloc_noio_save();
	err = first_attempt(path);
	memalloc_noio_restore(noio);
	if (!err) {
		path->attempts = 0;
		path_log(info, path, "connected again");
	} else if (client_path_set_state(path, CLIENT_RECONNECTING)) {
		schedule_reconnect(path);
	}
	return err;
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
	if (client_path_get_state(path) != CLIENT_RECONNECTING)
		goto unlock;
	if (max >= 0 && path->attempts >= (unsigned int)max) {
		path_log(err, path, "given up after %u attempts to reconnect",
			 path->attempts);
		if (client_path_set_state(path, CLIENT_CLOSING))
			finish_close(path);
	} else {
		reconnect_once(path);
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

static bool hb_seen(struct rtrs_hb *hb)
{
	struct client_path *path = container_of(hb, struct client_path, hb);
	bool seen = false;
	u32 cid;

	for (cid = 0; cid < path->nr_conns; cid++) {
		struct rtrs_conn *conn = &path->conn[cid]->base;

		if (READ_ONCE(conn->seen)) {
			WRITE_ONCE(conn->seen, false);
			seen = true;
		}
	}
	return seen;
}

static void hb_send(struct rtrs_hb *hb)
{
	struct client_path *path = container_of(hb, struct client_path, hb);

	/* Without room in the send queue there is traffic enough. */
	rtrs_conn_send_imm(&path->conn[0]->base, rtrs_imm(RTRS_IMM_HB_MSG, 0));
}

static void hb_dead(struct rtrs_hb *hb)
{
	struct client_path *path = container_of(hb, struct client_path, hb);

	client_path_error(path, -ETIMEDOUT,
			  "nothing heard from the server for %u heartbeats of %u ms",
			  hb->max_missed, hb->interval_ms);
}

static const struct rtrs_hb_ops hb_ops = {
	.seen	= hb_seen,
	.send	= hb_send,
	.dead	= hb_dead,
};

static void set_name(struct client_path *path)
{
	const struct rtrs_addr *addr = &path->addr;

	if (addr->src.ss_family == AF_UNSPEC)
		rtrs_addr_format(&addr->dst, path->name, sizeof(path->name));
	else
		rtrs_addr_format_path(&addr->src, &addr->dst, path->name,
				      sizeof(path->name));
}

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
	set_name(path);
	client_path_kobj_init(path);
	if (alloc_conns(path)) {
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

	for (cid = 0; path->conn && cid < path->nr_conns; cid++)
		kfree(path->conn[cid]);
	kvfree(path->conn);
	kvfree(path->chunk);
	kfree(path->info.req);
	kvfree(path->info.rsp);
	kobject_put(&path->kobj);
}

/**
 * client_path_open() - connect a path for the first time
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
	err = first_attempt(path);
	mutex_unlock(&path->op_lock);
	return err ?: client_path_sysfs_add(path);
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
		reconnect_once(path);
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
 * client_path_reconnect() brings it back.
 *
 * Context: process context, sleeps.
 */
void client_path_close(struct client_path *path)
{
	client_path_set_state(path, CLIENT_CLOSING);
	cancel_works(path);
	mutex_lock(&path->op_lock);
	if (client_path_get_state(path) == CLIENT_CLOSING)
		finish_close(path);
	mutex_unlock(&path->op_lock);
	/* Whoever held op_lock before us may have scheduled one more attempt. */
	cancel_works(path);
}
