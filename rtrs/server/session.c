// SPDX-License-Identifier: GPL-2.0
/*
 * Sessions: what one client has here, whatever path it comes over.
 *
 * A session is created by the first connection request with an unknown session
 * uuid, under the server's lock, and is in the server's list as long as it has
 * paths: a session whose last path has been taken out of it is unknown to new
 * requests.  Each path holds a reference, so the memory goes with the last one
 * of them, after its queue pairs, regions and DMA mappings.
 *
 * All memory that requests need is allocated before the first path is CONNECTED,
 * see memory.c.
 *
 * The name comes with the first INFO_REQ and stays; no two sessions in the list
 * have the same one.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/mm.h>
#include <linux/slab.h>

#include "server.h"

/**
 * server_session_create() - create a session and put it into the list
 * @srv:	the listening user, locked
 * @uuid:	identity
 *
 * Its memory is claimed, but not allocated yet.
 *
 * Context: process context, sleeps.
 * Return: the session with a reference, or an ERR_PTR: -EUSERS: there are as
 * many as allowed; -ENOMEM.
 */
struct rtrs_server_session *server_session_create(struct rtrs_server *srv,
						  const u8 *uuid)
{
	const struct server_config *cfg = &server_config;
	struct rtrs_server_session *sess;

	lockdep_assert_held(&srv->lock);
	if (srv->nr_sessions >= READ_ONCE(server_max_sessions))
		return ERR_PTR(-EUSERS);
	sess = kzalloc(sizeof(*sess), GFP_KERNEL);
	if (!sess)
		return ERR_PTR(-ENOMEM);
	if (server_claim(srv, &sess->claimed, server_session_claim(cfg))) {
		kfree(sess);
		return ERR_PTR(-ENOMEM);
	}
	sess->srv = srv;
	kref_init(&sess->ref);
	INIT_LIST_HEAD(&sess->paths);
	memcpy(sess->uuid, uuid, RTRS_UUID_LEN);
	mutex_init(&sess->lock);
	mutex_init(&sess->build);
	spin_lock_init(&sess->spare_lock);
	INIT_LIST_HEAD(&sess->spare_queue);
	INIT_WORK(&sess->grow_work, server_spare_grow);
	spin_lock_init(&sess->fence_lock);
	INIT_LIST_HEAD(&sess->fenced);
	rtrs_domain_pool_init(&sess->domains, &server_domain_ops);

	sess->depth = cfg->depth;
	sess->chunk_size = cfg->chunk_size;
	sess->max_io_size = sess->chunk_size - SERVER_HDR_SIZE;
	sess->always_invalidate = cfg->always_invalidate;
	sess->small_size = cfg->small_size;
	sess->first_spares = cfg->nr_spares;
	if (sess->always_invalidate && sess->max_io_size > sess->small_size)
		sess->max_spares = sess->depth;
	list_add(&sess->entry, &srv->sessions);
	srv->nr_sessions++;
	return sess;
}

/**
 * server_session_find() - look a session up
 * @srv:	the listening user, locked
 * @uuid:	identity
 *
 * Return: the session with a reference, or NULL.
 */
struct rtrs_server_session *server_session_find(struct rtrs_server *srv,
						const u8 *uuid)
{
	struct rtrs_server_session *sess;

	lockdep_assert_held(&srv->lock);
	list_for_each_entry(sess, &srv->sessions, entry) {
		if (!memcmp(sess->uuid, uuid, RTRS_UUID_LEN)) {
			kref_get(&sess->ref);
			return sess;
		}
	}
	return NULL;
}

/**
 * server_session_set_name() - a path of the session has presented a name
 * @sess:	the session
 * @name:	checked
 *
 * Context: process context, sleeps.
 * Return: 0; -EEXIST: another session has it; -EINVAL: the session's other
 * paths presented another one.
 */
int server_session_set_name(struct rtrs_server_session *sess, const char *name)
{
	struct rtrs_server_session *other;
	struct server_path *path;
	int err = 0;

	mutex_lock(&sess->srv->lock);
	if (sess->name[0]) {
		if (strcmp(sess->name, name))
			err = -EINVAL;
		goto unlock;
	}
	list_for_each_entry(other, &sess->srv->sessions, entry) {
		if (!strcmp(other->name, name)) {
			/* Perhaps its client has died and is back. */
			list_for_each_entry(path, &other->paths, entry)
				server_path_doubt(path);
			err = -EEXIST;
			goto unlock;
		}
	}
	strscpy(sess->name, name, sizeof(sess->name));
unlock:
	mutex_unlock(&sess->srv->lock);
	return err;
}

/**
 * server_session_unlink() - forget a session that has no path
 * @sess:	the session, in the list; its server is locked
 *
 * Context: process context, sleeps.
 */
void server_session_unlink(struct rtrs_server_session *sess)
{
	struct rtrs_server *srv = sess->srv;

	lockdep_assert_held(&srv->lock);
	list_del(&sess->entry);
	srv->nr_sessions--;
	/* Nobody waits for a buffer, but the work may still have to notice. */
	cancel_work_sync(&sess->grow_work);
	server_unclaim(srv, &sess->claimed, sess->claimed);
}

static void session_release(struct kref *ref)
{
	struct rtrs_server_session *sess =
		container_of(ref, struct rtrs_server_session, ref);

	server_session_release(sess);
	mutex_destroy(&sess->build);
	mutex_destroy(&sess->lock);
	kfree(sess);
}

/**
 * server_session_put() - give a reference back
 * @sess:	the session
 *
 * Context: process context, sleeps.
 */
void server_session_put(struct rtrs_server_session *sess)
{
	kref_put(&sess->ref, session_release);
}

/**
 * server_session_up() - a path is about to take requests
 * @path:	the path
 *
 * Context: process context, sleeps.
 * Return: 0 or the user's refusal.
 */
int server_session_up(struct server_path *path)
{
	struct rtrs_server_session *sess = path->sess;
	int err = 0;

	mutex_lock(&sess->lock);
	if (!sess->nr_up)
		err = sess->srv->ops.connected(sess, &sess->priv);
	if (!err) {
		sess->nr_up++;
		path->is_up = true;
	}
	mutex_unlock(&sess->lock);
	return err;
}

/**
 * server_session_down() - a path takes no requests any more
 * @path:	the path; none of its operations is left
 *
 * Context: process context, sleeps.
 */
void server_session_down(struct server_path *path)
{
	struct rtrs_server_session *sess = path->sess;

	mutex_lock(&sess->lock);
	if (path->is_up) {
		path->is_up = false;
		if (!--sess->nr_up) {
			sess->srv->ops.disconnected(sess->priv);
			sess->priv = NULL;
		}
	}
	mutex_unlock(&sess->lock);
}

/**
 * rtrs_server_session_name() - the name the client gave its session
 * @sess:	the session, in or after its connected callback
 *
 * Context: any.
 */
const char *rtrs_server_session_name(const struct rtrs_server_session *sess)
{
	return sess->name;
}
EXPORT_SYMBOL_GPL(rtrs_server_session_name);

/**
 * rtrs_server_session_depth() - requests the client can have outstanding
 * @sess:	the session
 *
 * Context: any.
 */
u32 rtrs_server_session_depth(const struct rtrs_server_session *sess)
{
	return sess->depth;
}
EXPORT_SYMBOL_GPL(rtrs_server_session_depth);
