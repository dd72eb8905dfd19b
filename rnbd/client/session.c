// SPDX-License-Identifier: GPL-2.0
/*
 * A session: the connection to one server, with the tags that its devices and
 * messages share.
 *
 * The first map of a session name creates it; others that come meanwhile wait
 * and share the outcome.  The last user (mapped device or map operation) that
 * leaves closes it; a map that comes meanwhile waits for the end and makes a
 * new one.  The list of sessions, users and state belong to sessions_lock.
 *
 * Nobody may use the transport handle once it is being closed.  Therefore it
 * is used only in RCU sections that look at @shut first: the request path and
 * rnbd_msg_send().
 *
 * Teardown, in this order, by the last user (at module unload the first two
 * steps are done earlier, to set everybody free who waits for the server):
 *   1. shut := true, wait for the RCU sections;
 *   2. close the transport: everything in flight is completed;
 *   3. cancel the work of link events (there can be no more of them);
 *   4. wait until messages that nobody waits for any more have let go of
 *	their devices;
 *   5. destroy queue and tag set, take the session off the list, wake those
 *	who wait for that.
 * The memory goes with the last reference: a completion that is just waking
 * us up, a map that was waiting.
 *
 * Link events come from the transport in process context, one at a time, not
 * for the first connect.  They take the session's lock, so nothing may close
 * the transport or wait for an answer while holding that.
 */
#include "rnbd/client/client.h"

#include <linux/rcupdate.h>
#include <linux/sched/mm.h>
#include <linux/slab.h>

#include "compat/core.h"

static DEFINE_MUTEX(sessions_lock);
static LIST_HEAD(sessions);

static void rnbd_session_free(struct kref *ref)
{
	kfree(container_of(ref, struct rnbd_session, ref));
}

/**
 * rnbd_session_unref() - give back a reference to the memory
 * @sess:	the session
 *
 * Context: any.
 */
void rnbd_session_unref(struct rnbd_session *sess)
{
	kref_put(&sess->ref, rnbd_session_free);
}

/**
 * rnbd_session_event() - something happened that somebody may wait for
 * @sess:	the session
 *
 * Context: any.
 */
void rnbd_session_event(struct rnbd_session *sess)
{
	atomic_inc(&sess->events);
	wake_up_all(&sess->wait);
}

/*
 * Link events
 */

static void rnbd_link_work(struct work_struct *work)
{
	struct rnbd_session *sess = container_of(work, struct rnbd_session,
						 link_work);
	struct rnbd_dev *dev;
	unsigned int noio;
	int err;

	/*
	 * A path was lost and came back before the session was complete: there
	 * are no devices yet, and who creates it sends SESS_INFO himself.
	 * Pairs with the release in rnbd_session_set_state().
	 */
	if (smp_load_acquire(&sess->state) == RNBD_SESS_CREATING)
		return;
	/* See device.c. */
	noio = memalloc_noio_save();
	err = rnbd_send_sess_info(sess, false);
	memalloc_noio_restore(noio);
	if (err && err != -ECONNABORTED)
		pr_err("session %s: cannot send SESS_INFO: %pe\n", sess->name,
		       ERR_PTR(err));
	mutex_lock(&sess->lock);
	if (sess->link_up)
		list_for_each_entry(dev, &sess->devices, entry)
			rnbd_dev_link_up(dev);
	mutex_unlock(&sess->lock);
}

static void rnbd_link_event(void *priv, enum rtrs_link event)
{
	struct rnbd_session *sess = priv;
	struct rnbd_dev *dev;

	mutex_lock(&sess->lock);
	WRITE_ONCE(sess->link_up, event == RTRS_LINK_UP);
	if (event == RTRS_LINK_DOWN) {
		WRITE_ONCE(sess->epoch, sess->epoch + 1);
		list_for_each_entry(dev, &sess->devices, entry)
			rnbd_dev_link_down(dev);
	}
	mutex_unlock(&sess->lock);

	if (event == RTRS_LINK_DOWN) {
		if (!READ_ONCE(sess->shut))
			pr_info("session %s: no path is connected\n",
				sess->name);
		/* Requests with a handle of the old epoch: see device.c. */
		synchronize_rcu();
		return;
	}
	pr_info("session %s: connected again\n", sess->name);
	if (!READ_ONCE(sess->shut))
		queue_work(rnbd_wq, &sess->link_work);
}

/*
 * Creation and teardown
 */

static void rnbd_session_shutdown(struct rnbd_session *sess)
{
	if (sess->shut)
		return;
	WRITE_ONCE(sess->shut, true);
	synchronize_rcu();
	rtrs_client_close(sess->clt);
	cancel_work_sync(&sess->link_work);
}

static void rnbd_shutdown_work(struct work_struct *work)
{
	rnbd_session_shutdown(container_of(work, struct rnbd_session,
					   shutdown_work));
}

static bool rnbd_session_deserted(struct rnbd_session *sess)
{
	bool ret;

	mutex_lock(&sess->lock);
	ret = list_empty(&sess->devices);
	mutex_unlock(&sess->lock);
	return ret;
}

static void rnbd_session_teardown(struct rnbd_session *sess)
{
	rnbd_session_shutdown(sess);
	for (;;) {
		int seen = atomic_read(&sess->events);

		if (rnbd_session_deserted(sess))
			break;
		wait_event(sess->wait, atomic_read(&sess->events) != seen);
	}
	compat_free_queue(sess->anchor_q);
	blk_mq_free_tag_set(&sess->tag_set);
}

static int rnbd_session_check_limits(struct rnbd_session *sess)
{
	const struct rtrs_client_limits *lim = &sess->lim;

	if (lim->nr_tags && lim->nr_queues && lim->max_segments &&
	    lim->max_io_size >= PAGE_SIZE &&
	    lim->max_usr_len >= sizeof(struct rnbd_wire_open))
		return 0;
	pr_err("session %s: the server's limits are too small: %u tags, %u bytes per request, %u bytes of message\n",
	       sess->name, lim->nr_tags, lim->max_io_size, lim->max_usr_len);
	return -EINVAL;
}

static int rnbd_session_connect(struct rnbd_session *sess,
				const struct rnbd_map_options *opts,
				const struct rtrs_addr *addr)
{
	const struct rtrs_client_config cfg = {
		.name		 = sess->name,
		.path		 = addr,
		.nr_paths	 = opts->nr_paths,
		.port		 = opts->port,
		.nr_poll_queues	 = opts->nr_poll_queues,
		.reconnect_delay = RNBD_RECONNECT_DELAY,
		.max_reconnects	 = -1,
		.link		 = rnbd_link_event,
		.priv		 = sess,
	};
	int err;

	sess->clt = rtrs_client_open(&cfg);
	if (IS_ERR(sess->clt)) {
		err = PTR_ERR(sess->clt);
		pr_err("session %s: cannot connect: %pe\n", sess->name,
		       ERR_PTR(err));
		sess->clt = NULL;
		sess->shut = true;
		return err;
	}
	if (rtrs_client_query(sess->clt, &sess->lim)) {
		pr_err("session %s: its only path was lost at once\n",
		       sess->name);
		err = -ECONNABORTED;
		goto err_shutdown;
	}
	sess->lim.max_segments = min(sess->lim.max_segments, RNBD_MAX_SEGMENTS);
	err = rnbd_session_check_limits(sess);
	if (err)
		goto err_shutdown;
	err = rnbd_tag_set_init(sess);
	if (err)
		goto err_shutdown;
	sess->anchor_q = compat_alloc_queue(&sess->tag_set);
	if (IS_ERR(sess->anchor_q)) {
		err = PTR_ERR(sess->anchor_q);
		goto err_tags;
	}
	err = rnbd_send_sess_info(sess, true);
	if (err) {
		pr_err("session %s: no agreement on a protocol version: %pe\n",
		       sess->name, ERR_PTR(err));
		rnbd_session_teardown(sess);
	}
	return err;

err_tags:
	blk_mq_free_tag_set(&sess->tag_set);
err_shutdown:
	rnbd_session_shutdown(sess);
	return err;
}

static struct rnbd_session *rnbd_session_alloc(const struct rnbd_map_options *opts)
{
	struct rnbd_session *sess;

	sess = kzalloc(sizeof(*sess), GFP_KERNEL);
	if (!sess)
		return NULL;
	kref_init(&sess->ref);
	mutex_init(&sess->lock);
	INIT_LIST_HEAD(&sess->devices);
	init_waitqueue_head(&sess->wait);
	INIT_WORK(&sess->link_work, rnbd_link_work);
	INIT_WORK(&sess->shutdown_work, rnbd_shutdown_work);
	sess->state = RNBD_SESS_CREATING;
	sess->users = 1;
	sess->link_up = true;
	sess->nr_poll_queues = opts->nr_poll_queues;
	memcpy(sess->name, opts->sess, sizeof(sess->name));
	return sess;
}

/* Who waits may have nothing but a reference to the memory. */
static void rnbd_session_set_state(struct rnbd_session *sess,
				   enum rnbd_session_state state)
{
	mutex_lock(&sessions_lock);
	/* Whoever sees READY sees all that was set up before. */
	smp_store_release(&sess->state, state);
	if (state == RNBD_SESS_DEAD)
		list_del(&sess->entry);
	mutex_unlock(&sessions_lock);
	wake_up_all(&sess->wait);
}

static struct rnbd_session *rnbd_session_create(struct rnbd_session *sess,
						const struct rnbd_map_options *opts,
						const struct rtrs_addr *addr)
{
	int err;

	err = rnbd_session_connect(sess, opts, addr);
	if (err) {
		sess->error = err;
		rnbd_session_set_state(sess, RNBD_SESS_DEAD);
		rnbd_session_unref(sess);
		return ERR_PTR(err);
	}
	rnbd_session_set_state(sess, RNBD_SESS_READY);
	return sess;
}

static struct rnbd_session *rnbd_session_find(const char *name)
{
	struct rnbd_session *sess;

	lockdep_assert_held(&sessions_lock);
	list_for_each_entry(sess, &sessions, entry)
		if (!strcmp(sess->name, name))
			return sess;
	return NULL;
}

/* A session that is coming or going: 0 to look again, or its error. */
static int rnbd_session_wait(struct rnbd_session *sess,
			     enum rnbd_session_state seen)
{
	int err;

	err = wait_event_interruptible(sess->wait,
				       READ_ONCE(sess->state) != seen);
	if (!err && seen == RNBD_SESS_CREATING &&
	    READ_ONCE(sess->state) == RNBD_SESS_DEAD)
		err = sess->error;
	return err;
}

static int rnbd_session_check_poll(const struct rnbd_session *sess,
				   const struct rnbd_map_options *opts)
{
	if (!opts->nr_poll_queues && !sess->nr_poll_queues)
		return 0;
	pr_err("map_device: nr_poll_queues: session %s exists; a session with polled queues holds exactly one device\n",
	       sess->name);
	return -EINVAL;
}

/**
 * rnbd_session_get() - find or create a session and become a user of it
 * @opts:	what to map
 * @addr:	@opts->nr_paths paths, used only to create
 *
 * Context: process, may sleep; no locks held.
 *
 * Return: the session, for rnbd_session_put(); or -ENXIO: there is none and no
 * path to create it; -EINVAL: poll queues forbid it; -ERESTARTSYS; or why it
 * could not be connected.
 */
struct rnbd_session *rnbd_session_get(const struct rnbd_map_options *opts,
				      const struct rtrs_addr *addr)
{
	enum rnbd_session_state state;
	struct rnbd_session *sess;
	int err;

	for (;;) {
		mutex_lock(&sessions_lock);
		sess = rnbd_session_find(opts->sess);
		if (!sess)
			break;
		state = sess->state;
		if (state == RNBD_SESS_READY) {
			err = rnbd_session_check_poll(sess, opts);
			if (!err)
				sess->users++;
			mutex_unlock(&sessions_lock);
			return err ? ERR_PTR(err) : sess;
		}
		kref_get(&sess->ref);
		mutex_unlock(&sessions_lock);
		err = rnbd_session_wait(sess, state);
		rnbd_session_unref(sess);
		if (err)
			return ERR_PTR(err);
	}

	sess = ERR_PTR(-ENOMEM);
	if (!opts->nr_paths) {
		pr_err("map_device: path: is required, session %s does not exist\n",
		       opts->sess);
		sess = ERR_PTR(-ENXIO);
	} else {
		struct rnbd_session *new = rnbd_session_alloc(opts);

		if (new) {
			list_add_tail(&new->entry, &sessions);
			sess = new;
		}
	}
	mutex_unlock(&sessions_lock);
	if (IS_ERR(sess))
		return sess;
	return rnbd_session_create(sess, opts, addr);
}

/**
 * rnbd_session_put() - stop using a session
 * @sess:	the session; the last user closes it
 *
 * Context: process, may sleep; no locks held.
 */
void rnbd_session_put(struct rnbd_session *sess)
{
	bool last;

	mutex_lock(&sessions_lock);
	last = !--sess->users;
	if (last)
		WRITE_ONCE(sess->state, RNBD_SESS_DYING);
	mutex_unlock(&sessions_lock);
	if (!last)
		return;
	rnbd_session_teardown(sess);
	rnbd_session_set_state(sess, RNBD_SESS_DEAD);
	rnbd_session_unref(sess);
}

/**
 * rnbd_sessions_shutdown() - close the transport of all sessions
 *
 * Everything in flight is completed and nothing new is submitted.  All at the
 * same time, since a dead server can make each take its time.
 *
 * Context: process, module unload: nobody maps or unmaps any more.
 */
void rnbd_sessions_shutdown(void)
{
	struct rnbd_session *sess;

	mutex_lock(&sessions_lock);
	list_for_each_entry(sess, &sessions, entry)
		queue_work(system_dfl_wq, &sess->shutdown_work);
	mutex_unlock(&sessions_lock);
	list_for_each_entry(sess, &sessions, entry)
		flush_work(&sess->shutdown_work);
}

/**
 * rnbd_sessions_any_dev() - a mapped device, whichever
 *
 * Context: process, module unload: nobody maps or unmaps any more.
 *
 * Return: a device that is not being unmapped yet, or NULL.
 */
struct rnbd_dev *rnbd_sessions_any_dev(void)
{
	struct rnbd_dev *dev, *found = NULL;
	struct rnbd_session *sess;

	mutex_lock(&sessions_lock);
	list_for_each_entry(sess, &sessions, entry) {
		mutex_lock(&sess->lock);
		list_for_each_entry(dev, &sess->devices, entry)
			if (READ_ONCE(dev->state) != RNBD_DEV_UNMAPPED)
				found = dev;
		mutex_unlock(&sess->lock);
	}
	mutex_unlock(&sessions_lock);
	return found;
}
