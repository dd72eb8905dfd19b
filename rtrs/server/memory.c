// SPDX-License-Identifier: GPL-2.0
/*
 * A session's memory: who may have how much, when it is allocated, how devices
 * reach it.
 *
 * Clients claim memory when they knock and are refused if the server has none
 * left to give; the claim of a session covers its buffers and operations, that
 * of a path its queues and regions.  Both end when their owner leaves its list.
 * Claims are estimates on the safe side, the limit is the administrator's.
 *
 * Claimed is not allocated: the buffers come with the first good INFO_REQ of
 * the session, from a work of that path and under the session's own lock.  So a
 * client that connects and falls silent costs its queue pairs only, and a slow
 * allocation keeps nobody else waiting.  They go with the session.
 *
 * The number of buffers grows later, by single private buffers, when all of them
 * are in use (spare.c), and by second chunks (fence.c).  buf[] has room for all there can be, and so has
 * the table of DMA addresses of each domain; what is in them never moves.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/bitmap.h>
#include <linux/mm.h>
#include <linux/slab.h>

#include "compat/core.h"
#include "server.h"

/* What an operation takes, without a user's excesses */
#define OP_CLAIM	1024U

/*
 * Claims
 */

/**
 * server_session_claim() - what a session may cost
 * @cfg:	geometry
 *
 * Return: bytes.
 */
u64 server_session_claim(const struct server_config *cfg)
{
	u64 bytes = (u64)cfg->depth * (cfg->chunk_size + OP_CLAIM);

	bytes += (u64)cfg->depth * cfg->small_size;
	return bytes + (u64)cfg->nr_spares * (cfg->chunk_size - SERVER_HDR_SIZE);
}

/**
 * server_claim() - claim memory for a client
 * @srv:	the listening user
 * @claimed:	what the owner has claimed so far
 * @bytes:	how much more
 *
 * Context: any.
 * Return: 0 or -ENOMEM: that is more than all clients together may have.
 */
int server_claim(struct rtrs_server *srv, u64 *claimed, u64 bytes)
{
	u64 all = atomic64_add_return(bytes, &srv->claimed);

	if (all > server_memory_limit()) {
		atomic64_sub(bytes, &srv->claimed);
		return -ENOMEM;
	}
	*claimed += bytes;
	return 0;
}

/**
 * server_unclaim() - end a claim, or a part of it
 * @srv:	the listening user
 * @claimed:	what the owner has claimed so far
 * @bytes:	how much less
 *
 * Context: any.
 */
void server_unclaim(struct rtrs_server *srv, u64 *claimed, u64 bytes)
{
	*claimed -= bytes;
	atomic64_sub(bytes, &srv->claimed);
}

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

/* Queue pairs need the protection domain before there is memory to map. */
static int domain_setup(struct rtrs_domain *base)
{
	return 0;
}

static void unmap_buf(struct server_domain *dom, const struct server_buf *buf,
		      u32 nr)
{
	u32 i;

	for (i = 0; i < nr; i++)
		ib_dma_unmap_page(dom->base.dev, dom->dma[buf->first + i],
				  buf->ext[i].bv_len, buf->dir);
}

static int map_buf(struct server_domain *dom, const struct server_buf *buf)
{
	u32 i;

	for (i = 0; i < buf->nr_ext; i++) {
		u64 addr = ib_dma_map_page(dom->base.dev, buf->ext[i].bv_page,
					   0, buf->ext[i].bv_len, buf->dir);

		if (ib_dma_mapping_error(dom->base.dev, addr)) {
			unmap_buf(dom, buf, i);
			return -ENOMEM;
		}
		dom->dma[buf->first + i] = addr;
	}
	return 0;
}

static void unmap_bufs(struct rtrs_server_session *sess,
		       struct server_domain *dom, u32 nr)
{
	while (nr--)
		unmap_buf(dom, &sess->buf[nr], sess->buf[nr].nr_ext);
	kvfree(dom->dma);
	dom->dma = NULL;
}

static void domain_teardown(struct rtrs_domain *base)
{
	struct server_domain *dom = container_of(base, struct server_domain, base);
	struct rtrs_server_session *sess =
		container_of(base->pool, struct rtrs_server_session, domains);

	if (dom->dma)
		unmap_bufs(sess, dom, sess->nr_bufs);
}

const struct rtrs_domain_ops server_domain_ops = {
	.alloc		= domain_alloc,
	.setup		= domain_setup,
	.teardown	= domain_teardown,
	.free		= domain_free,
};

/**
 * server_domain_map() - let a device reach a session's buffers
 * @sess:	the session, has its memory
 * @dom:	its domain on the device, referenced by a path
 *
 * Context: process context, sleeps.
 * Return: 0 or -ENOMEM.
 */
int server_domain_map(struct rtrs_server_session *sess,
		      struct server_domain *dom)
{
	u32 i;
	int err = 0;

	mutex_lock(&sess->domains.lock);
	if (dom->dma)
		goto unlock;
	dom->dma = kvcalloc(sess->dma_room, sizeof(*dom->dma), GFP_KERNEL);
	if (!dom->dma) {
		err = -ENOMEM;
		goto unlock;
	}
	for (i = 0; i < sess->nr_bufs && !err; i++) {
		err = map_buf(dom, &sess->buf[i]);
		if (err)
			unmap_bufs(sess, dom, i);
		cond_resched();
	}
unlock:
	mutex_unlock(&sess->domains.lock);
	return err;
}

/*
 * Buffers and operations
 */

/**
 * server_buf_add() - allocate the next buffer and map it where others are
 * @sess:	the session
 * @size:	bytes
 * @dir:	what devices do with it
 * @node:	preferred memory node
 *
 * Context: process context, sleeps; under rtrs_server_session.build.
 * Return: 0 or -ENOMEM: also if it is in more pieces than there is room for.
 */
int server_buf_add(struct rtrs_server_session *sess, u32 size,
		   enum dma_data_direction dir, int node)
{
	struct server_buf *buf = &sess->buf[sess->nr_bufs];
	struct rtrs_domain *base;
	struct server_domain *dom;
	int err = server_buf_alloc(buf, size, node);

	if (err)
		return err;
	if (sess->dma_room && buf->nr_ext > sess->max_ext) {
		server_buf_free(buf);
		return -ENOMEM;
	}
	mutex_lock(&sess->domains.lock);
	buf->first = sess->nr_ext;
	buf->dir = dir;
	list_for_each_entry(base, &sess->domains.domains, entry) {
		dom = container_of(base, struct server_domain, base);
		err = dom->dma ? map_buf(dom, buf) : 0;
		if (err)
			break;
	}
	if (!err) {
		sess->nr_ext += buf->nr_ext;
		sess->nr_bufs++;
		goto unlock;
	}
	list_for_each_entry_continue_reverse(base, &sess->domains.domains,
					     entry) {
		dom = container_of(base, struct server_domain, base);
		if (dom->dma)
			unmap_buf(dom, buf, buf->nr_ext);
	}
	server_buf_free(buf);
unlock:
	mutex_unlock(&sess->domains.lock);
	return err;
}

static int add_bufs(struct rtrs_server_session *sess, u32 nr, u32 size, int node)
{
	int err = 0;

	/* Clients write to chunks only. */
	enum dma_data_direction dir = sess->nr_bufs ? DMA_TO_DEVICE :
						      DMA_BIDIRECTIONAL;

	while (nr-- && !err) {
		err = server_buf_add(sess, size, dir, node);
		cond_resched();
	}
	return err;
}

static int alloc_bufs(struct rtrs_server_session *sess, int node)
{
	u32 i, nr_small = sess->small_size ? sess->depth : 0;
	u32 msgs = sess->depth + nr_small;
	int err;

	/* Where there can be spares there can be second chunks as well. */
	sess->buf = kvcalloc(msgs + 1 + 2 * sess->max_spares,
			     sizeof(*sess->buf), GFP_KERNEL);
	if (!sess->buf)
		return -ENOMEM;
	err = add_bufs(sess, sess->depth, sess->chunk_size, node);
	if (!err)
		err = add_bufs(sess, nr_small, sess->small_size, node);
	if (!err)
		err = add_bufs(sess, 1, sess->depth *
			       sizeof(struct rtrs_wire_rkey_rsp), node);
	if (!err)
		err = add_bufs(sess, sess->first_spares, sess->max_io_size, node);
	if (err)
		return err;
	sess->msgs = &sess->buf[msgs];

	/* Later buffers may be in more pieces than the first ones. */
	sess->max_ext = min_t(u32, SERVER_MAX_SGE,
			      DIV_ROUND_UP(sess->max_io_size, PAGE_SIZE));
	for (i = 0; i < sess->nr_bufs; i++)
		if (i != msgs)
			sess->max_ext = max(sess->max_ext, sess->buf[i].nr_ext);
	sess->dma_room = sess->nr_ext + sess->max_ext *
			 (2 * sess->max_spares - sess->first_spares);
	return 0;
}

static int alloc_spares(struct rtrs_server_session *sess)
{
	u32 i, first = sess->nr_bufs - sess->first_spares;

	sess->spare = kvcalloc(sess->max_spares, sizeof(*sess->spare),
			       GFP_KERNEL);
	sess->spare_used = bitmap_zalloc(sess->max_spares, GFP_KERNEL);
	if (!sess->spare || !sess->spare_used)
		return -ENOMEM;
	for (i = 0; i < sess->max_spares; i++) {
		sess->spare[i].cqe.done = server_spare_sent;
		sess->spare[i].sess = sess;
		if (i < sess->first_spares)
			sess->spare[i].buf = &sess->buf[first + i];
	}
	sess->nr_spares = sess->first_spares;
	bitmap_set(sess->spare_used, sess->nr_spares,
		   sess->max_spares - sess->nr_spares);
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

/**
 * server_session_release() - free a session's memory
 * @sess:	no domain is left; may have no memory, or only some
 */
void server_session_release(struct rtrs_server_session *sess)
{
	kvfree(sess->ops);
	sess->ops = NULL;
	bitmap_free(sess->spare_used);
	sess->spare_used = NULL;
	kvfree(sess->spare);
	sess->spare = NULL;
	kvfree(sess->alt);
	sess->alt = NULL;
	while (sess->nr_bufs)
		server_buf_free(&sess->buf[--sess->nr_bufs]);
	sess->nr_ext = 0;
	sess->dma_room = 0;
	kvfree(sess->buf);
	sess->buf = NULL;
}

/**
 * server_session_build() - allocate a session's memory, unless it has it
 * @sess:	the session
 * @node:	memory node to prefer
 *
 * Context: process context, sleeps.
 * Return: 0 or -ENOMEM.
 */
int server_session_build(struct rtrs_server_session *sess, int node)
{
	int err = 0;

	mutex_lock(&sess->build);
	if (sess->built)
		goto unlock;
	err = alloc_bufs(sess, node);
	if (!err)
		err = alloc_spares(sess);
	if (!err)
		err = alloc_ops(sess);
	if (err)
		server_session_release(sess);
	else
		sess->built = true;
unlock:
	mutex_unlock(&sess->build);
	return err;
}

static int add_alt(struct rtrs_server_session *sess, u32 id, int node)
{
	int err;

	if (!sess->alt)
		sess->alt = kvcalloc(sess->depth, sizeof(*sess->alt),
				     GFP_KERNEL);
	if (!sess->alt)
		return -ENOMEM;
	if (sess->alt[id])
		return 0;
	err = server_claim(sess->srv, &sess->claimed, sess->chunk_size);
	if (err)
		return err;
	err = server_buf_add(sess, sess->chunk_size, DMA_BIDIRECTIONAL, node);
	if (err)
		server_unclaim(sess->srv, &sess->claimed, sess->chunk_size);
	else
		sess->alt[id] = &sess->buf[sess->nr_bufs - 1];
	return err;
}

/**
 * server_alt_chunk() - let a path use another chunk for an id than others do
 * @path:	CONNECTING, its regions are mapped, but not registered yet
 * @id:		buffer id
 *
 * Context: process context, sleeps.
 * Return: 0, -ENOMEM or what the device said.
 */
int server_alt_chunk(struct server_path *path, u32 id)
{
	struct rtrs_server_session *sess = path->sess;
	int err;

	if (!path->alt_ids)
		path->alt_ids = bitmap_zalloc(sess->depth, GFP_KERNEL);
	if (!path->alt_ids)
		return -ENOMEM;
	mutex_lock(&sess->build);
	err = add_alt(sess, id, ibdev_to_node(path->dom->base.dev));
	mutex_unlock(&sess->build);
	if (err)
		return err;
	__set_bit(id, path->alt_ids);
	return server_mr_map(path, id);
}
