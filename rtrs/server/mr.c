// SPDX-License-Identifier: GPL-2.0
/*
 * Memory regions: the keys by which a client reaches the chunks over one path.
 *
 * Allocated and registered over the service connection when INFO_REQ is
 * processed, and from then on used by requests: whoever operates on a buffer
 * id may void and renew the key of its chunk, so no lock is needed.
 * Deregistered by the close work after the queue pairs are drained.
 *
 * With always_invalidate every chunk has a region of its own.  Otherwise as
 * many chunks share one as the device allows, but always the same number: a
 * client insists that the regions divide the chunks.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/mm.h>
#include <linux/slab.h>

#include "server.h"

/* Registrations in flight; any service connection has room for as many. */
#define MR_BATCH	16

static u32 chunks_per_mr(const struct rtrs_server_session *sess,
			 const struct ib_device *dev)
{
	u32 pages = sess->chunk_size / SERVER_MR_PAGE;
	u32 n = dev->attrs.max_fast_reg_page_list_len / pages;

	if (n && sess->always_invalidate)
		return 1;
	for (n = min(n, sess->depth); n && sess->depth % n;)
		n--;
	return n;
}

/**
 * server_mr_layout() - how many chunks will share a region
 * @path:	new path
 * @dev:	device it runs on
 *
 * Return: 0, or -EOPNOTSUPP: the device cannot register a whole chunk.
 */
int server_mr_layout(struct server_path *path, struct ib_device *dev)
{
	path->mr_chunks = chunks_per_mr(path->sess, dev);
	if (path->mr_chunks)
		return 0;
	path_err(path, "device %s cannot register a chunk of %u bytes, only %u pages; lower max_chunk_size\n",
		 dev_name(&dev->dev), path->sess->chunk_size,
		 dev->attrs.max_fast_reg_page_list_len);
	return -EOPNOTSUPP;
}

/**
 * server_mr_map() - make the pages of the chunks' pieces a region's page list
 * @path:	CONNECTING
 * @index:	the region, which is not registered
 *
 * Context: process context, sleeps.
 * Return: 0, -ENOMEM or what the device said.
 */
int server_mr_map(struct server_path *path, u32 index)
{
	u32 i, c, nr = 0, id = index * path->mr_chunks;
	struct scatterlist *sgl, *sg;
	int n;

	for (c = 0; c < path->mr_chunks; c++)
		nr += server_chunk(path, id + c)->nr_ext;
	sgl = kvmalloc_array(nr, sizeof(*sgl), GFP_KERNEL);
	if (!sgl)
		return -ENOMEM;
	sg_init_table(sgl, nr);
	for (sg = sgl, c = 0; c < path->mr_chunks; c++) {
		struct server_buf *buf = server_chunk(path, id + c);

		for (i = 0; i < buf->nr_ext; i++, sg = sg_next(sg)) {
			sg_set_page(sg, buf->ext[i].bv_page,
				    buf->ext[i].bv_len, 0);
			sg_dma_address(sg) = path->dom->dma[buf->first + i];
			sg_dma_len(sg) = buf->ext[i].bv_len;
		}
	}
	n = ib_map_mr_sg(path->mr[index], sgl, nr, NULL, SERVER_MR_PAGE);
	kvfree(sgl);
	if (n == nr)
		return 0;
	return n < 0 ? n : -EINVAL;
}

/**
 * server_mr_alloc() - allocate the regions of a path
 * @path:	CONNECTING, the device can reach the session's memory
 *
 * Context: process context, sleeps.
 * Return: 0, -ENOMEM or what the device said.  server_mr_free() cleans up.
 */
int server_mr_alloc(struct server_path *path)
{
	struct rtrs_server_session *sess = path->sess;
	struct ib_device *dev = path->dom->base.dev;
	u32 pages;
	struct ib_mr *mr;
	int err;

	pages = path->mr_chunks * (sess->chunk_size / SERVER_MR_PAGE);
	path->mr = kvcalloc(sess->depth / path->mr_chunks, sizeof(*path->mr),
			    GFP_KERNEL);
	if (!path->mr)
		return -ENOMEM;
	while (path->nr_mrs < sess->depth / path->mr_chunks) {
		mr = ib_alloc_mr(path->dom->base.pd, IB_MR_TYPE_MEM_REG, pages);
		if (IS_ERR(mr)) {
			path_err(path, "device %s gave %u of %u memory regions: %ld\n",
				 dev_name(&dev->dev), path->nr_mrs,
				 sess->depth / path->mr_chunks, PTR_ERR(mr));
			return PTR_ERR(mr);
		}
		path->mr[path->nr_mrs++] = mr;
		err = server_mr_map(path, path->nr_mrs - 1);
		if (err)
			return err;
		/* A key is never used twice in a row. */
		ib_update_fast_reg_key(mr, ib_inc_rkey(mr->rkey));
		cond_resched();
	}
	return 0;
}

static int register_batch(struct server_path *path, struct ib_reg_wr *wr,
			  u32 first, u32 nr)
{
	struct rtrs_conn *conn = &path->conns[0]->base;
	u32 i;
	int err;

	memset(wr, 0, nr * sizeof(*wr));
	for (i = 0; i < nr; i++) {
		struct ib_mr *mr = path->mr[first + i];

		wr[i].wr.opcode = IB_WR_REG_MR;
		wr[i].wr.wr_cqe = &conn->sq_cqe;
		wr[i].wr.next = i + 1 < nr ? &wr[i + 1].wr : NULL;
		wr[i].mr = mr;
		wr[i].key = mr->rkey;
		wr[i].access = IB_ACCESS_LOCAL_WRITE | IB_ACCESS_REMOTE_WRITE;
	}
	wr[nr - 1].wr.wr_cqe = &path->reg_cqe;
	wr[nr - 1].wr.send_flags = IB_SEND_SIGNALED;

	WRITE_ONCE(path->registered, false);
	err = rtrs_conn_send(conn, &wr[0].wr, &wr[nr - 1].wr, nr, true);
	if (err)
		return err;
	/* A dead connection does not complete it, but closes the path. */
	wait_event(path->wait, smp_load_acquire(&path->registered) ||
		   READ_ONCE(path->state) != SERVER_CONNECTING);
	return READ_ONCE(path->registered) ? 0 : -ENOTCONN;
}

/**
 * server_mr_register() - make the keys of a path valid
 * @path:	CONNECTING, its setup lock is held
 *
 * Context: process context, sleeps.
 * Return: 0 or -ENOTCONN: the path is closing.
 */
int server_mr_register(struct server_path *path)
{
	struct ib_reg_wr *wr;
	u32 i, nr;
	int err = 0;

	wr = kmalloc_array(MR_BATCH, sizeof(*wr), GFP_KERNEL);
	if (!wr)
		return -ENOMEM;
	for (i = 0; i < path->nr_mrs && !err; i += nr) {
		nr = min_t(u32, MR_BATCH, path->nr_mrs - i);
		err = register_batch(path, wr, i, nr);
	}
	kfree(wr);
	return err;
}

/**
 * server_mr_free() - take the regions away
 * @path:	its queue pairs are drained, or it never had any
 *
 * Context: process context, sleeps.
 */
void server_mr_free(struct server_path *path)
{
	struct rtrs_server_session *sess = path->sess;

	while (path->nr_mrs)
		ib_dereg_mr(path->mr[--path->nr_mrs]);
	kvfree(path->mr);
	path->mr = NULL;
	if (!path->has_keys)
		return;
	mutex_lock(&sess->lock);
	sess->nr_keys--;
	WRITE_ONCE(path->has_keys, false);
	mutex_unlock(&sess->lock);
}
