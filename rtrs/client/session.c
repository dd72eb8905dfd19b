// SPDX-License-Identifier: GPL-2.0
/*
 * Sessions.
 *
 * Created by rtrs_client_open() and destroyed by rtrs_client_close(), both in
 * the user's process context.  Between them the user submits (io.c), paths
 * come and go on their own (path.c) and by the administrator's will (paths.c).
 *
 * How many buffers there are, and how large, is the server's to say; the first
 * path that is accepted sets these constants under setup_lock, and everything a
 * request ever needs is allocated then.  A server that later says less, or
 * another depth, is refused: slots and the block device's limits stand.
 *
 * The user hears about the session as a whole: the first path up, the last one
 * down.  event_lock serialises these callbacks; nothing is told before open has
 * returned or after close has begun.  A path becomes CONNECTED under it, too: no
 * request can use it before the user has heard that all had been down.
 *
 * The memory belongs to the device in sysfs and goes with its last reference.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/export.h>
#include <linux/module.h>
#include <linux/slab.h>
#include <linux/uuid.h>

#include "client.h"

static LIST_HEAD(sessions);
static DEFINE_MUTEX(sessions_lock);

/* Ids a session keeps in reserve: two for each 64, at most eight */
static u32 nr_spares(u32 depth)
{
	return min(depth / 32, 8U);
}

static void free_slots(struct rtrs_client *clt)
{
	client_ids_free(clt);
	kvfree(clt->slot);
	kvfree(clt->by_id);
	kvfree(clt->front);
	kvfree(clt->sge);
	clt->slot = NULL;
	clt->by_id = NULL;
	clt->front = NULL;
	clt->sge = NULL;
}

static int alloc_slots(struct rtrs_client *clt)
{
	/* One entry more for message and header */
	u32 nr_sge = clt->max_segments + 1;
	u32 nr_front = DIV_ROUND_UP(nr_sge, clt->max_sge) - 1;
	u32 tag;

	clt->slot = kvcalloc(clt->nr_tags, sizeof(*clt->slot), GFP_KERNEL);
	clt->by_id = kvcalloc(clt->depth, sizeof(*clt->by_id), GFP_KERNEL);
	clt->sge = kvcalloc(clt->nr_tags, array_size(nr_sge, sizeof(*clt->sge)),
			    GFP_KERNEL);
	clt->front = kvcalloc(max(clt->nr_tags * nr_front, 1U),
			      sizeof(*clt->front), GFP_KERNEL);
	if (!clt->slot || !clt->by_id || !clt->sge || !clt->front) {
		free_slots(clt);
		return -ENOMEM;
	}
	for (tag = 0; tag < clt->nr_tags; tag++) {
		struct client_slot *slot = &clt->slot[tag];

		slot->tag = tag;
		slot->id = tag;
		slot->sge = clt->sge + (size_t)tag * nr_sge;
		slot->front = clt->front + (size_t)tag * nr_front;
		client_slot_init(slot);
		clt->by_id[tag] = slot;
	}
	if (client_ids_alloc(clt)) {
		free_slots(clt);
		return -ENOMEM;
	}
	return 0;
}

/* The first path decides what the session can do. */
static int set_constants(struct rtrs_client *clt, struct client_path *path,
			 const struct rtrs_conn_rsp *rsp)
{
	struct ib_device *dev = path->dom->base.dev;
	u32 pages = dev->attrs.max_fast_reg_page_list_len;
	int err;

	/* One page more: data need not start on a page boundary. */
	pages = min(pages, rsp->max_io_size / CLIENT_PAGE + 1);
	if (pages < 2)
		return -EOPNOTSUPP;
	clt->depth = rsp->queue_depth;
	clt->nr_tags = min_t(u32, clt->depth - nr_spares(clt->depth),
			     CLIENT_MAX_TAGS);
	clt->nr_ids = min(clt->nr_tags + nr_spares(clt->depth), clt->depth);
	clt->max_io_size = min(rsp->max_io_size, (pages - 1) * CLIENT_PAGE);
	clt->max_hdr_size = rsp->max_hdr_size;
	clt->max_segments = pages;
	clt->max_sge = path->max_sge;
	clt->copy_write = min(clt->copy_write, clt->max_io_size);
	clt->copy_read = min(clt->copy_read, clt->max_io_size);
	err = alloc_slots(clt);
	if (err)
		return err;
	/* Pairs with the acquire in client_ready(). */
	smp_store_release(&clt->ready, true);
	return 0;
}

static int check_constants(struct rtrs_client *clt, struct client_path *path,
			   const struct rtrs_conn_rsp *rsp)
{
	struct ib_device *dev = path->dom->base.dev;

	if (rsp->queue_depth != clt->depth) {
		client_path_error(path, -EINVAL,
				  "refused: the server offers %u buffers, the session was opened with %u",
				  rsp->queue_depth, clt->depth);
		return -EINVAL;
	}
	if (rsp->max_io_size < clt->max_io_size ||
	    rsp->max_hdr_size < clt->max_hdr_size) {
		client_path_error(path, -EINVAL,
				  "refused: the server offers %u + %u bytes a request, the session was opened with %u + %u",
				  rsp->max_io_size, rsp->max_hdr_size,
				  clt->max_io_size, clt->max_hdr_size);
		return -EINVAL;
	}
	if (path->max_sge < clt->max_sge ||
	    dev->attrs.max_fast_reg_page_list_len < clt->max_segments) {
		client_path_error(path, -EOPNOTSUPP,
				  "refused: device %s can do less than the one the session was opened on",
				  dev->name);
		return -EOPNOTSUPP;
	}
	return 0;
}

/**
 * client_session_setup() - the server has said what it offers
 * @clt:	the session
 * @path:	path that is connecting, with a domain
 * @rsp:	the server's answer on the service connection
 *
 * The first call sets the session's constants, all others compare.
 *
 * Context: process context, sleeps; under the path's op_lock.
 * Return: 0; -EINVAL or -EOPNOTSUPP: this path cannot be part of the session;
 * -ENOMEM.
 */
int client_session_setup(struct rtrs_client *clt, struct client_path *path,
			 const struct rtrs_conn_rsp *rsp)
{
	int err;

	mutex_lock(&clt->setup_lock);
	if (clt->ready)
		err = check_constants(clt, path, rsp);
	else
		err = set_constants(clt, path, rsp);
	mutex_unlock(&clt->setup_lock);
	return err;
}

/* Under event_lock */
static int path_up(struct rtrs_client *clt, struct client_path *path)
{
	/*
	 * Whether the server has just made a new session or knew the one the
	 * others are in cannot be told: ask again, so that it must know it.
	 */
	if (path->first_conn && clt->nr_up)
		return -EAGAIN;
	/*
	 * Requests that ended without an answer since the server was asked may
	 * still be queued there: ask again, so that it lets them end first.
	 */
	if (path->losses != clt->losses)
		return -EAGAIN;
	if (!client_path_set_state(path, CLIENT_CONNECTED))
		return -ECANCELED;
	path->up = true;
	spin_lock_irq(&path->lock);
	path->nr_up++;
	spin_unlock_irq(&path->lock);
	WRITE_ONCE(clt->nr_up, clt->nr_up + 1);
	if (clt->nr_up == 1 && clt->opened && clt->cfg.link)
		clt->cfg.link(clt->cfg.priv, RTRS_LINK_UP);
	return 0;
}

/**
 * client_path_up() - let a path carry requests
 * @path:	CONNECTING; the server has accepted it
 *
 * Context: process context, sleeps; under the path's op_lock.
 * Return: 0: it is CONNECTED; -EAGAIN: the attempt must be made again, because it
 * could have made a new session at the server while others came up, or because
 * requests of another path were lost meanwhile; -ECANCELED: it is not CONNECTING
 * any more.
 */
int client_path_up(struct client_path *path)
{
	struct rtrs_client *clt = path->clt;
	int err;

	mutex_lock(&clt->event_lock);
	err = path_up(clt, path);
	mutex_unlock(&clt->event_lock);
	/* Not every first success is a first attempt: open waits for either. */
	if (!err)
		wake_up(&clt->changed);
	return err;
}

/**
 * client_session_loss() - requests of a lost path have not been answered
 * @clt:	the session
 *
 * Called before they are sent again or fail: a path that is CONNECTED by now
 * takes them over, one that is being connected starts over.
 *
 * Context: process context, sleeps.
 */
void client_session_loss(struct rtrs_client *clt)
{
	mutex_lock(&clt->event_lock);
	WRITE_ONCE(clt->losses, clt->losses + 1);
	mutex_unlock(&clt->event_lock);
}

/**
 * client_path_down() - a path is gone and its requests are completed
 * @path:	the path; nothing happens if it was not up
 *
 * Context: process context, sleeps; under the path's op_lock.
 */
void client_path_down(struct client_path *path)
{
	struct rtrs_client *clt = path->clt;

	if (!path->up)
		return;
	path->up = false;
	mutex_lock(&clt->event_lock);
	WRITE_ONCE(clt->nr_up, clt->nr_up - 1);
	if (!clt->nr_up && clt->opened && clt->cfg.link)
		clt->cfg.link(clt->cfg.priv, RTRS_LINK_DOWN);
	mutex_unlock(&clt->event_lock);
}

static void session_release(struct device *dev)
{
	struct rtrs_client *clt = to_client(dev);

	free_slots(clt);
	free_percpu(clt->turn);
	kfree(clt);
	client_object_put();
}

static int check_config(const struct rtrs_client_config *cfg)
{
	if (!cfg->name || rtrs_name_len(cfg->name, RTRS_NAME_LEN) < 0) {
		pr_err("invalid session name: 1 to %u characters without blank, slash and dot are needed\n",
		       RTRS_NAME_LEN - 1);
		return -EINVAL;
	}
	if (!cfg->nr_paths || cfg->nr_paths > RTRS_MAX_PATHS) {
		pr_err("session %s: %u paths, 1 to %u are possible\n",
		       cfg->name, cfg->nr_paths, RTRS_MAX_PATHS);
		return -EINVAL;
	}
	if (cfg->nr_poll_queues > RTRS_MAX_CONNS / 2 - 1) {
		pr_err("session %s: %u poll queues, at most %u are possible\n",
		       cfg->name, cfg->nr_poll_queues, RTRS_MAX_CONNS / 2 - 1);
		return -EINVAL;
	}
	return cfg->max_reconnects < -1 ? -EINVAL : 0;
}

static struct rtrs_client *alloc_session(const struct rtrs_client_config *cfg)
{
	struct rtrs_client *clt = kzalloc(sizeof(*clt), GFP_KERNEL);
	uuid_t uuid;

	if (!clt)
		return NULL;
	clt->turn = alloc_percpu(u32);
	if (!clt->turn) {
		kfree(clt);
		return NULL;
	}
	strscpy(clt->name, cfg->name, sizeof(clt->name));
	uuid_gen(&uuid);
	memcpy(clt->uuid, &uuid, sizeof(clt->uuid));
	clt->cfg = *cfg;
	clt->cfg.name = clt->name;
	clt->cfg.path = NULL;
	clt->max_reconnects = cfg->max_reconnects;
	clt->nr_queues = client_queues();
	clt->nr_poll_queues = cfg->nr_poll_queues;
	clt->copy_write = client_copybreak(true);
	clt->copy_read = client_copybreak(false);
	clt->policy = CLIENT_MIN_INFLIGHT;
	init_waitqueue_head(&clt->changed);
	spin_lock_init(&clt->ids.lock);
	INIT_LIST_HEAD(&clt->ids.free);
	INIT_LIST_HEAD(&clt->ids.answered);
	INIT_LIST_HEAD(&clt->ids.holds);
	mutex_init(&clt->paths_lock);
	INIT_LIST_HEAD(&clt->paths);
	mutex_init(&clt->setup_lock);
	mutex_init(&clt->event_lock);
	rtrs_domain_pool_init(&clt->domains, &client_domain_ops);
	INIT_LIST_HEAD(&clt->entry);

	client_object_get();
	device_initialize(&clt->dev);
	clt->dev.class = client_class;
	clt->dev.release = session_release;
	clt->dev.groups = client_session_groups;
	return clt;
}

/* Names are unique in the module, whoever the user is. */
static int register_name(struct rtrs_client *clt)
{
	struct rtrs_client *other;
	int err = 0;

	mutex_lock(&sessions_lock);
	list_for_each_entry(other, &sessions, entry)
		if (!strcmp(other->name, clt->name))
			err = -EEXIST;
	if (!err)
		list_add_tail(&clt->entry, &sessions);
	mutex_unlock(&sessions_lock);
	if (err)
		pr_err("session %s exists already\n", clt->name);
	return err;
}

static void unregister_name(struct rtrs_client *clt)
{
	mutex_lock(&sessions_lock);
	list_del_init(&clt->entry);
	mutex_unlock(&sessions_lock);
}

/* The directory is complete before user space hears of it. */
static int add_directory(struct rtrs_client *clt)
{
	int err;

	err = dev_set_name(&clt->dev, "%s", clt->name);
	if (err)
		return err;
	dev_set_uevent_suppress(&clt->dev, true);
	err = device_add(&clt->dev);
	if (err)
		return err;
	clt->paths_kobj = kobject_create_and_add("paths", &clt->dev.kobj);
	if (!clt->paths_kobj) {
		device_del(&clt->dev);
		return -ENOMEM;
	}
	dev_set_uevent_suppress(&clt->dev, false);
	kobject_uevent(&clt->dev.kobj, KOBJ_ADD);
	return 0;
}

/**
 * rtrs_client_open() - open a session
 * @cfg:	what it shall be; copied
 *
 * Succeeds when a path is connected and the others have been tried; those that
 * failed, or take longer than a few seconds after that, keep trying by themselves.
 *
 * Context: process context, sleeps, up to 31 seconds for each connection of
 * a path; a signal ends it.
 * Return: the session, or an ERR_PTR, that of the first path if none could be
 * connected:
 * -EINVAL	the configuration, or a server with impossible sizes;
 * -EEXIST	a session of this name, or the same path twice;
 * -ECONNREFUSED nobody listens there, or the server gave no reason;
 * -EPROTO	the peer speaks something else;
 * -EADDRINUSE	the server closed the session when it heard its name;
 * -EHOSTUNREACH, -ETIMEDOUT no way to the peer, no answer from it;
 * -ENETUNREACH, -EADDRNOTAVAIL, -ENODEV the address is impossible here;
 * -ERESTARTSYS	a signal came;
 * -ENOMEM; and what a server refused the connection with.
 */
struct rtrs_client *rtrs_client_open(const struct rtrs_client_config *cfg)
{
	struct rtrs_client *clt;
	int err;

	err = check_config(cfg);
	if (err)
		return ERR_PTR(err);
	clt = alloc_session(cfg);
	if (!clt)
		return ERR_PTR(-ENOMEM);
	err = register_name(clt);
	if (err)
		goto put;
	err = add_directory(clt);
	if (err)
		goto unregister;
	err = client_paths_open(clt, cfg);
	if (err) {
		rtrs_client_close(clt);
		return ERR_PTR(err);
	}
	mutex_lock(&clt->event_lock);
	clt->opened = true;
	mutex_unlock(&clt->event_lock);
	return clt;

unregister:
	unregister_name(clt);
put:
	put_device(&clt->dev);
	return ERR_PTR(err);
}
EXPORT_SYMBOL_GPL(rtrs_client_open);

/**
 * rtrs_client_close() - close a session
 * @clt:	the session; no other call on it may run or follow
 *
 * Requests in flight complete with -ECONNABORTED before it returns.  No link
 * event is delivered once it has begun; it waits for one that is being
 * delivered, so the caller must hold nothing that the callback waits for.
 *
 * Context: process context, sleeps; not from a callback of the session.
 */
void rtrs_client_close(struct rtrs_client *clt)
{
	mutex_lock(&clt->event_lock);
	clt->opened = false;
	mutex_unlock(&clt->event_lock);

	client_paths_close(clt);
	kobject_put(clt->paths_kobj);
	device_del(&clt->dev);
	unregister_name(clt);
	put_device(&clt->dev);
}
EXPORT_SYMBOL_GPL(rtrs_client_close);

/**
 * rtrs_client_query() - what can this session do?
 * @clt:	the session
 * @lim:	result, constant for the life of the session
 *
 * Context: any.
 * Return: 0, or -ECOMM when no path is connected.
 */
int rtrs_client_query(struct rtrs_client *clt, struct rtrs_client_limits *lim)
{
	if (!client_any_connected(clt, NULL) || !client_ready(clt))
		return -ECOMM;

	lim->queue_depth = clt->depth;
	lim->nr_tags = clt->nr_tags;
	lim->max_io_size = clt->max_io_size;
	lim->max_segments = clt->max_segments;
	lim->max_usr_len = CLIENT_MAX_USR;
	lim->nr_queues = clt->nr_queues;
	lim->nr_poll_queues = clt->nr_poll_queues;
	return 0;
}
EXPORT_SYMBOL_GPL(rtrs_client_query);
