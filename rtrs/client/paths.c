// SPDX-License-Identifier: GPL-2.0
/*
 * The paths of a session as a set: which there are, and what they are called.
 *
 * The list is read under RCU by submitters and changed under paths_lock, which
 * also decides about addresses and names: no two paths of a session ever have
 * the same pair of addresses.  A path whose source was not given has none until
 * it connects; then it is settled, once, and its directory renamed.
 *
 * A path enters the list before it connects: with the session, or by add_path.
 * It leaves by remove_path, by an add_path that failed, or with the session:
 *	1. closed until its state is DEAD, from where nothing brings it back
 *	2. its directory removed, which waits for those who use its attributes
 *	3. off the list, a grace period, freed; the ids it holds stay held
 * paths_lock is not held while a path connects or closes, and nobody takes an
 * op_lock under it.
 *
 * Adding and removing is a change: none begins before the session is open or
 * after its close has begun, and close waits for those that are under way, so
 * that afterwards the set is its own.  An add that waits for a server is woken
 * by abandoning its path.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/rculist.h>
#include <linux/sched/signal.h>
#include <linux/slab.h>

#include "client.h"

/* The next path is tried beside the first one when that takes so long. */
#define STAGGER_MS	10000
/* When a path is connected the others get so long for their first attempt. */
#define LINGER_MS	5000

static bool same_source(const struct sockaddr_storage *a,
			const struct sockaddr_storage *b)
{
	if (a->ss_family == AF_UNSPEC)
		return b->ss_family == AF_UNSPEC;
	return rtrs_addr_equal(a, b);
}

static bool has_twin(struct client_path *path,
		     const struct sockaddr_storage *src)
{
	struct client_path *other;

	lockdep_assert_held(&path->clt->paths_lock);

	list_for_each_entry(other, &path->clt->paths, entry)
		if (other != path && same_source(&other->addr.src, src) &&
		    rtrs_addr_equal(&other->addr.dst, &path->addr.dst))
			return true;
	return false;
}

/**
 * client_paths_twin() - has another path these addresses?
 * @path:	the path
 * @src:	a source for it
 *
 * Context: process context, sleeps.
 */
bool client_paths_twin(struct client_path *path,
		       const struct sockaddr_storage *src)
{
	struct rtrs_client *clt = path->clt;
	bool ret;

	mutex_lock(&clt->paths_lock);
	ret = has_twin(path, src);
	mutex_unlock(&clt->paths_lock);
	return ret;
}

static void set_source(struct client_path *path, sa_family_t family)
{
	unsigned long flags;

	spin_lock_irqsave(&path->lock, flags);
	path->addr.src = path->src;
	path->addr.src.ss_family = family;
	spin_unlock_irqrestore(&path->lock, flags);
}

static int settle_source(struct client_path *path)
{
	int err;

	if (has_twin(path, &path->src))
		return -EEXIST;
	set_source(path, path->src.ss_family);
	client_path_dirname(path, path->names[1], sizeof(path->names[1]));
	err = client_path_sysfs_rename(path, path->names[1]);
	if (err) {
		/* The next attempt tries again. */
		set_source(path, AF_UNSPEC);
		return err;
	}
	/* Pairs with the acquire in client_path_name(). */
	smp_store_release(&path->name, path->names[1]);
	return 0;
}

/**
 * client_path_settle() - a path's source is known: keep it
 * @path:	about to be connected, with client_path.src set
 *
 * Context: process context, sleeps; under the path's op_lock.
 * Return: 0, also if it was given; -EEXIST: another path has the addresses;
 * -ENOMEM.
 */
int client_path_settle(struct client_path *path)
{
	struct rtrs_client *clt = path->clt;
	int err = 0;

	mutex_lock(&clt->paths_lock);
	if (path->addr.src.ss_family == AF_UNSPEC)
		err = settle_source(path);
	mutex_unlock(&clt->paths_lock);
	return err;
}

/* Under paths_lock */
static int insert(struct rtrs_client *clt, struct client_path *path)
{
	unsigned int index = find_first_zero_bit(clt->indices, RTRS_MAX_PATHS);

	if (has_twin(path, &path->addr.src)) {
		path_log(err, path,
			 "the session has a path between these addresses");
		return -EEXIST;
	}
	if (index == RTRS_MAX_PATHS) {
		path_log(err, path, "the session has %u paths already",
			 RTRS_MAX_PATHS);
		return -ENOSPC;
	}
	__set_bit(index, clt->indices);
	path->index = index;
	list_add_tail_rcu(&path->entry, &clt->paths);
	WRITE_ONCE(clt->nr_paths, clt->nr_paths + 1);
	return 0;
}

static struct client_path *create(struct rtrs_client *clt,
				  const struct rtrs_addr *addr)
{
	struct client_path *path = client_path_create(clt, addr);
	int err;

	if (IS_ERR(path))
		return path;
	mutex_lock(&clt->paths_lock);
	err = insert(clt, path);
	mutex_unlock(&clt->paths_lock);
	if (err) {
		client_path_free(path);
		return ERR_PTR(err);
	}
	return path;
}

static int show(struct client_path *path)
{
	struct rtrs_client *clt = path->clt;
	int err;

	mutex_lock(&clt->paths_lock);
	err = client_path_sysfs_add(path);
	mutex_unlock(&clt->paths_lock);
	return err;
}

/* Until nothing can bring it back */
static void bury(struct client_path *path)
{
	do {
		client_path_close(path);
	} while (!client_path_set_state(path, CLIENT_DEAD));
}

static void destroy(struct client_path *path)
{
	struct rtrs_client *clt = path->clt;

	bury(path);
	/* Before another path can come between its addresses. */
	client_ids_del_path(path);
	client_path_sysfs_del(path);
	mutex_lock(&clt->paths_lock);
	list_del_rcu(&path->entry);
	WRITE_ONCE(clt->nr_paths, clt->nr_paths - 1);
	mutex_unlock(&clt->paths_lock);
	synchronize_rcu();
	/* Nobody looks at a path by its number any more. */
	mutex_lock(&clt->paths_lock);
	__clear_bit(path->index, clt->indices);
	mutex_unlock(&clt->paths_lock);
	client_path_free(path);
}

/**
 * client_paths_begin() - is it allowed to add or remove a path?
 * @clt:	the session
 *
 * Context: process context, sleeps.
 * Return: 0: yes, and client_paths_end() must follow; -EBUSY: the session is
 * being opened; -ENODEV: it is being closed.
 */
int client_paths_begin(struct rtrs_client *clt)
{
	int err = 0;

	mutex_lock(&clt->paths_lock);
	if (clt->closing)
		err = -ENODEV;
	else if (!clt->complete)
		err = -EBUSY;
	else
		clt->nr_changes++;
	/* Close does not wait for the end of client_paths_end(). */
	if (!err)
		get_device(&clt->dev);
	mutex_unlock(&clt->paths_lock);
	return err;
}

/**
 * client_paths_end() - the change is made
 * @clt:	the session
 *
 * Context: process context, sleeps.
 */
void client_paths_end(struct rtrs_client *clt)
{
	mutex_lock(&clt->paths_lock);
	WRITE_ONCE(clt->nr_changes, clt->nr_changes - 1);
	wake_up(&clt->changed);
	mutex_unlock(&clt->paths_lock);
	put_device(&clt->dev);
}

/**
 * client_paths_add() - add a path and connect it
 * @clt:	the session
 * @addr:	where from and where to
 *
 * Context: process context, sleeps; a signal ends it.
 * Return: 0: it is connected; or why not, and nothing remains of it: -EEXIST
 * the session has a path between these addresses; -ENOSPC too many paths; and
 * what rtrs_client_open() may return.
 */
int client_paths_add(struct rtrs_client *clt, const struct rtrs_addr *addr)
{
	struct client_path *path;
	int err;

	err = client_paths_begin(clt);
	if (err)
		return err;
	path = create(clt, addr);
	if (IS_ERR(path)) {
		err = PTR_ERR(path);
	} else {
		/* Close may not have seen it. */
		if (READ_ONCE(clt->closing))
			client_path_abandon(path);
		err = client_path_open(path) ?: show(path);
		if (err)
			destroy(path);
	}
	client_paths_end(clt);
	return err;
}

/**
 * client_paths_remove() - remove a path
 * @path:	the path; gone afterwards
 *
 * Context: process context, sleeps; between client_paths_begin() and
 * client_paths_end(), and once for a path.
 */
void client_paths_remove(struct client_path *path)
{
	destroy(path);
}

static bool tried(const struct client_path *path)
{
	/* Pairs with the release in set_tried(): the result is there, too. */
	return smp_load_acquire(&path->tried);
}

static bool all_tried(const struct rtrs_client *clt)
{
	const struct client_path *path;

	list_for_each_entry(path, &clt->paths, entry)
		if (!tried(path))
			return false;
	return true;
}

static int result(const struct rtrs_client *clt)
{
	const struct client_path *path;
	int err = 0;

	/* The same path twice is a mistake, not a failure of the network. */
	list_for_each_entry(path, &clt->paths, entry)
		if (tried(path) && path->first_err == -EEXIST && path->first_twin)
			return -EEXIST;
	if (READ_ONCE(clt->nr_up))
		return 0;
	list_for_each_entry(path, &clt->paths, entry)
		err = err ?: path->first_err;
	return err ?: -ECONNABORTED;
}

/*
 * One after the other until one is connected, so that no two ask the server for
 * the session at the same time unless the first one gets nowhere; then the rest
 * at once.
 */
static int connect_paths(struct rtrs_client *clt)
{
	struct client_path *path;
	long ret;

	list_for_each_entry(path, &clt->paths, entry) {
		client_path_start(path);
		if (READ_ONCE(clt->nr_up))
			continue;
		ret = wait_event_interruptible_timeout(clt->changed, tried(path) ||
						       READ_ONCE(clt->nr_up),
						       msecs_to_jiffies(STAGGER_MS));
		if (ret < 0)
			return ret;
	}
	ret = wait_event_interruptible(clt->changed, all_tried(clt) ||
				       READ_ONCE(clt->nr_up));
	if (ret)
		return ret;
	wait_event_interruptible_timeout(clt->changed, all_tried(clt),
					 msecs_to_jiffies(LINGER_MS));
	return result(clt);
}

/**
 * client_paths_open() - make the first paths of a session and connect them
 * @clt:	the session, with its directory
 * @cfg:	the paths
 *
 * Context: process context, sleeps; a signal ends it.
 * Return: 0: at least one is connected, the others go on; or the reason why the
 * first of them is not. client_paths_close() takes everything back.
 */
int client_paths_open(struct rtrs_client *clt,
		      const struct rtrs_client_config *cfg)
{
	unsigned int i;
	int err;

	for (i = 0; i < cfg->nr_paths; i++) {
		struct client_path *path = create(clt, &cfg->path[i]);

		if (IS_ERR(path))
			return PTR_ERR(path);
		err = show(path);
		if (err)
			return err;
	}
	err = connect_paths(clt);
	if (err)
		return err;
	mutex_lock(&clt->paths_lock);
	clt->complete = true;
	mutex_unlock(&clt->paths_lock);
	return 0;
}

/**
 * client_paths_close() - end of all paths
 * @clt:	the session
 *
 * When it returns no path is left, nothing is in flight and none can be added.
 *
 * Context: process context, sleeps.
 */
void client_paths_close(struct rtrs_client *clt)
{
	struct client_path *path, *next;
	LIST_HEAD(gone);

	/* Wake whoever connects, so that nobody waits for time limits below. */
	mutex_lock(&clt->paths_lock);
	WRITE_ONCE(clt->closing, true);
	list_for_each_entry(path, &clt->paths, entry)
		client_path_abandon(path);
	mutex_unlock(&clt->paths_lock);
	wait_event(clt->changed, !READ_ONCE(clt->nr_changes));

	/* The last change may just be leaving; then the list is ours. */
	mutex_lock(&clt->paths_lock);
	mutex_unlock(&clt->paths_lock);
	list_for_each_entry(path, &clt->paths, entry)
		bury(path);
	list_for_each_entry(path, &clt->paths, entry)
		client_path_sysfs_del(path);
	mutex_lock(&clt->paths_lock);
	list_splice_init_rcu(&clt->paths, &gone, synchronize_rcu);
	clt->nr_paths = 0;
	mutex_unlock(&clt->paths_lock);
	list_for_each_entry_safe(path, next, &gone, entry)
		client_path_free(path);
}
