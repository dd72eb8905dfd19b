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
 * All memory that requests need is allocated here: chunks, private buffers and
 * operations.  Buffers are mapped once per device, see server_domain_ops.
 *
 * The name comes with the first INFO_REQ and stays; no two sessions in the list
 * have the same one.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/bitmap.h>
#include <linux/mm.h>
#include <linux/slab.h>

#include "server.h"

/*
 * Domains: DMA mappings of all buffers on one device
 */

static struct rtrs_domain *domain_alloc(struct rtrs_domain_pool *pool)
{
	struct server_domain *dom = kzalloc(sizeof(*dom), GFP_KERNEL);

	return dom ? &dom->base : NULL;
}

static void domain_free(struct rtrs_domain *base)
{
	kfree(container_of(base, struct server_domain, base));
}

/* Clients write to chunks only. */
static enum dma_data_direction buf_dir(struct rtrs_server_session *sess, u32 i)
{
	return i < sess->depth ? DMA_BIDIRECTIONAL : DMA_TO_DEVICE;
}

static void domain_unmap(struct server_domain *dom, u32 mapped)
{
	struct rtrs_server_session *sess =
		container_of(dom->base.pool, struct rtrs_server_session, domains);
	u32 b, i, n;

	for (b = 0; b < sess->nr_bufs; b++) {
		struct server_buf *buf = &sess->buf[b];

		for (i = 0; i < buf->nr_ext; i++) {
			n = buf->first + i;
			if (n >= mapped)
				goto free;
			ib_dma_unmap_page(dom->base.dev, dom->dma[n],
					  buf->ext[i].bv_len, buf_dir(sess, b));
		}
	}
free:
	kvfree(dom->dma);
	dom->dma = NULL;
}

static int domain_setup(struct rtrs_domain *base)
{
	struct server_domain *dom = container_of(base, struct server_domain, base);
	struct rtrs_server_session *sess =
		container_of(base->pool, struct rtrs_server_session, domains);
	u32 b, i, n = 0;

	dom->dma = kvcalloc(sess->nr_ext, sizeof(*dom->dma), GFP_KERNEL);
	if (!dom->dma)
		return -ENOMEM;
	for (b = 0; b < sess->nr_bufs; b++) {
		struct server_buf *buf = &sess->buf[b];

		for (i = 0; i < buf->nr_ext; i++, n++) {
			u64 addr = ib_dma_map_page(base->dev,
						   buf->ext[i].bv_page, 0,
						   buf->ext[i].bv_len,
						   buf_dir(sess, b));

			if (ib_dma_mapping_error(base->dev, addr)) {
				domain_unmap(dom, n);
				return -ENOMEM;
			}
			dom->dma[n] = addr;
		}
	}
	return 0;
}

static void domain_teardown(struct rtrs_domain *base)
{
	domain_unmap(container_of(base, struct server_domain, base), U32_MAX);
}

const struct rtrs_domain_ops server_domain_ops = {
	.alloc		= domain_alloc,
	.setup		= domain_setup,
	.teardown	= domain_teardown,
	.free		= domain_free,
};

/*
 * Memory
 */

static int add_bufs(struct rtrs_server_session *sess, u32 nr, u32 size, int node)
{
	for (; nr; nr--) {
		struct server_buf *buf = &sess->buf[sess->nr_bufs];
		int err = server_buf_alloc(buf, size, node);

		if (err)
			return err;
		buf->first = sess->nr_ext;
		sess->nr_ext += buf->nr_ext;
		sess->nr_bufs++;
	}
	return 0;
}

static int alloc_bufs(struct rtrs_server_session *sess, int node)
{
	u32 i, nr_small = sess->small_size ? sess->depth : 0;
	int err;

	sess->buf = kvcalloc(sess->depth + nr_small + sess->nr_spares + 1,
			     sizeof(*sess->buf), GFP_KERNEL);
	if (!sess->buf)
		return -ENOMEM;
	err = add_bufs(sess, sess->depth, sess->chunk_size, node);
	if (!err)
		err = add_bufs(sess, nr_small, sess->small_size, node);
	if (!err)
		err = add_bufs(sess, sess->nr_spares, sess->max_io_size, node);
	for (i = 0; i < sess->nr_bufs; i++)
		sess->max_ext = max(sess->max_ext, sess->buf[i].nr_ext);
	if (!err)
		err = add_bufs(sess, 1, sess->depth *
			       sizeof(struct rtrs_wire_rkey_rsp), node);
	return err;
}

static int alloc_spares(struct rtrs_server_session *sess)
{
	u32 i;

	sess->spare = kcalloc(sess->nr_spares, sizeof(*sess->spare), GFP_KERNEL);
	sess->spare_used = bitmap_zalloc(sess->nr_spares, GFP_KERNEL);
	if (!sess->spare || !sess->spare_used)
		return -ENOMEM;
	for (i = 0; i < sess->nr_spares; i++) {
		sess->spare[i].cqe.done = server_spare_sent;
		sess->spare[i].sess = sess;
		sess->spare[i].buf = &sess->buf[2 * sess->depth + i];
	}
	return 0;
}

static int alloc_ops(struct rtrs_server_session *sess)
{
	const struct rtrs_server_ops *ops = &sess->srv->ops;
	size_t align = max_t(size_t, SMP_CACHE_BYTES, sizeof(u64));
	u32 i;

	sess->op_usr = struct_size_t(struct server_op, bvec, sess->max_ext);
	sess->op_priv = ALIGN(sess->op_usr + ops->max_usr_len, align);
	sess->op_size = ALIGN(sess->op_priv + ops->op_priv_size, align);
	sess->ops = kvcalloc(sess->depth, sess->op_size, GFP_KERNEL);
	if (!sess->ops)
		return -ENOMEM;
	for (i = 0; i < sess->depth; i++)
		server_op_init(server_op(sess, i), sess, i);
	return 0;
}

static void session_free(struct rtrs_server_session *sess)
{
	u32 i;

	kvfree(sess->ops);
	bitmap_free(sess->spare_used);
	kfree(sess->spare);
	for (i = 0; i < sess->nr_bufs; i++)
		server_buf_free(&sess->buf[i]);
	kvfree(sess->buf);
	mutex_destroy(&sess->lock);
	kfree(sess);
}

/**
 * server_session_create() - create a session and put it into the list
 * @srv:	the listening user, locked
 * @uuid:	identity
 * @node:	memory node to prefer
 *
 * Context: process context, sleeps.
 * Return: the session with a reference, or an ERR_PTR: -ENOMEM.
 */
struct rtrs_server_session *server_session_create(struct rtrs_server *srv,
						  const u8 *uuid, int node)
{
	struct rtrs_server_session *sess = kzalloc(sizeof(*sess), GFP_KERNEL);
	int err;

	lockdep_assert_held(&srv->lock);
	if (!sess)
		return ERR_PTR(-ENOMEM);
	sess->srv = srv;
	kref_init(&sess->ref);
	INIT_LIST_HEAD(&sess->paths);
	memcpy(sess->uuid, uuid, RTRS_UUID_LEN);
	mutex_init(&sess->lock);
	rtrs_domain_pool_init(&sess->domains, &server_domain_ops);

	sess->depth = server_config.depth;
	sess->chunk_size = server_config.chunk_size;
	sess->max_io_size = sess->chunk_size - SERVER_HDR_SIZE;
	sess->always_invalidate = server_config.always_invalidate;
	if (sess->always_invalidate) {
		sess->small_size = min(SERVER_SMALL_SIZE, sess->max_io_size);
		if (sess->max_io_size > sess->small_size)
			sess->nr_spares = min(server_config.nr_spares,
					      sess->depth);
	}
	err = alloc_bufs(sess, node);
	if (!err)
		err = alloc_spares(sess);
	if (!err)
		err = alloc_ops(sess);
	if (err) {
		session_free(sess);
		return ERR_PTR(err);
	}
	list_add(&sess->entry, &srv->sessions);
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
	int err = 0;

	mutex_lock(&sess->srv->lock);
	if (sess->name[0]) {
		if (strcmp(sess->name, name))
			err = -EINVAL;
		goto unlock;
	}
	list_for_each_entry(other, &sess->srv->sessions, entry) {
		if (!strcmp(other->name, name)) {
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
 * @sess:	the session; its server is locked
 */
void server_session_unlink(struct rtrs_server_session *sess)
{
	lockdep_assert_held(&sess->srv->lock);
	list_del_init(&sess->entry);
}

static void session_release(struct kref *ref)
{
	session_free(container_of(ref, struct rtrs_server_session, ref));
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
