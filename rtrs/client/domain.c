// SPDX-License-Identifier: GPL-2.0
/*
 * What a session owns on one RDMA device.
 *
 * A domain is created by the session's first path on the device, while the CM
 * resolves its address; only when the server has said how many buffers there
 * are it can be prepared: slot buffers, mapped once, and a memory region per
 * slot for large reads.  The part of the slot buffers that the server writes
 * into, the arena, is registered by the first path that reaches that point
 * (armed) and stays so for the life of the domain; no request is sent before.
 *
 * The server can reach the arena and the regions of large reads in flight,
 * nothing else of this machine; no other server can reach those, because the
 * protection domain is this session's alone.
 *
 * Prepared, armed and refilled by connecting paths, in process context under
 * lock.  A path that is lost takes the regions of its requests with it, which
 * the others miss: the work refill replaces them, for as long as that takes.
 * Requests read it without a lock: their path holds a reference and was
 * connected after all of that.  The region of a slot belongs to the request in
 * the slot.  It ends with the last path on the device, in teardown(), when no
 * queue pair of the protection domain is left that could be written through.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/mm.h>
#include <linux/sched/mm.h>
#include <linux/slab.h>

#include "client.h"

/* A device without regions will not have any a moment later. */
#define REFILL_JIFFIES	HZ
/* Whole pages, of whatever size */
#define PIECE_SIZE	max_t(u32, SZ_32K, PAGE_SIZE)

/**
 * client_area_alloc() - allocate and map memory for equal parts
 * @area:	result
 * @dev:	who shall see it
 * @stride:	bytes of a part; a part never crosses a piece
 * @nr:		parts
 * @dir:	direction of the mapping
 *
 * Context: process context, sleeps.
 * Return: 0 or -ENOMEM.
 */
int client_area_alloc(struct client_area *area, struct ib_device *dev,
		      u32 stride, u32 nr, enum dma_data_direction dir)
{
	u32 i;

	area->stride = stride;
	area->per_piece = max(PIECE_SIZE / stride, 1U);
	area->piece_size = PAGE_ALIGN(min(area->per_piece, nr) * stride);
	area->nr_pieces = DIV_ROUND_UP(nr, area->per_piece);
	area->dir = dir;
	area->virt = kvcalloc(area->nr_pieces, sizeof(*area->virt), GFP_KERNEL);
	area->dma = kvcalloc(area->nr_pieces, sizeof(*area->dma), GFP_KERNEL);
	if (!area->virt || !area->dma)
		goto free;
	for (i = 0; i < area->nr_pieces; i++) {
		/* Several pages: without I/O it would be tried for ever. */
		void *virt = alloc_pages_exact(area->piece_size, GFP_KERNEL |
					       __GFP_RETRY_MAYFAIL |
					       __GFP_ZERO | __GFP_NOWARN);

		if (!virt)
			goto free;
		area->dma[i] = ib_dma_map_single(dev, virt, area->piece_size,
						 dir);
		if (ib_dma_mapping_error(dev, area->dma[i])) {
			free_pages_exact(virt, area->piece_size);
			goto free;
		}
		area->virt[i] = virt;
	}
	return 0;

free:
	client_area_free(area, dev);
	return -ENOMEM;
}

/**
 * client_area_free() - undo client_area_alloc(), even one that failed
 * @area:	the memory; may never have been allocated if it is zeroed
 * @dev:	the same device
 *
 * Context: process context, sleeps.
 */
void client_area_free(struct client_area *area, struct ib_device *dev)
{
	u32 i;

	for (i = 0; area->virt && i < area->nr_pieces && area->virt[i]; i++) {
		ib_dma_unmap_single(dev, area->dma[i], area->piece_size,
				    area->dir);
		free_pages_exact(area->virt[i], area->piece_size);
	}
	kvfree(area->virt);
	kvfree(area->dma);
	memset(area, 0, sizeof(*area));
}

static void refill_work(struct work_struct *work)
{
	struct client_domain *dom = container_of(work, struct client_domain,
						 refill.work);
	/* Requests wait for the regions, and memory may wait for requests. */
	unsigned int noio = memalloc_noio_save();
	int err = client_domain_refill(dom);

	memalloc_noio_restore(noio);
	if (!err)
		return;
	pr_warn_ratelimited("session %s: no memory regions on device %s (%d), trying again\n",
			    dom->clt->name, dom->base.dev->name, err);
	queue_delayed_work(client_refill_wq, &dom->refill, REFILL_JIFFIES);
}

static struct rtrs_domain *domain_alloc(struct rtrs_domain_pool *pool)
{
	struct client_domain *dom = kzalloc(sizeof(*dom), GFP_KERNEL);

	if (!dom)
		return NULL;
	dom->clt = container_of(pool, struct rtrs_client, domains);
	mutex_init(&dom->lock);
	xa_init(&dom->keys);
	INIT_DELAYED_WORK(&dom->refill, refill_work);
	return &dom->base;
}

static int domain_setup(struct rtrs_domain *base)
{
	if (!(base->dev->attrs.device_cap_flags &
	      IB_DEVICE_MEM_MGT_EXTENSIONS)) {
		pr_err("device %s cannot register memory by work request\n",
		       base->dev->name);
		return -EOPNOTSUPP;
	}
	return 0;
}

static void free_arena_mrs(struct client_domain *dom)
{
	u32 i;

	for (i = 0; dom->rx_mr && i < dom->nr_rx_mr; i++) {
		if (dom->rx_mr[i])
			ib_dereg_mr(dom->rx_mr[i]);
		dom->rx_mr[i] = NULL;
	}
}

static void domain_clear(struct client_domain *dom)
{
	u32 tag;

	for (tag = 0; dom->mr && tag < dom->clt->nr_tags; tag++)
		client_domain_drop_mr(dom, tag);
	free_arena_mrs(dom);
	client_area_free(&dom->tx, dom->base.dev);
	client_area_free(&dom->rx, dom->base.dev);
	kvfree(dom->mr);
	kvfree(dom->rx_mr);
	kvfree(dom->rx_desc);
	dom->mr = NULL;
	dom->rx_mr = NULL;
	dom->rx_desc = NULL;
	dom->arena = CLIENT_ARENA_FRESH;
	xa_destroy(&dom->keys);
}

static void domain_teardown(struct rtrs_domain *base)
{
	struct client_domain *dom = container_of(base, struct client_domain,
						 base);

	/* No path is left that would want regions. */
	cancel_delayed_work_sync(&dom->refill);
	domain_clear(dom);
}

static void domain_free(struct rtrs_domain *base)
{
	struct client_domain *dom = container_of(base, struct client_domain,
						 base);

	mutex_destroy(&dom->lock);
	kfree(dom);
}

const struct rtrs_domain_ops client_domain_ops = {
	.alloc		= domain_alloc,
	.setup		= domain_setup,
	.teardown	= domain_teardown,
	.free		= domain_free,
};

/* Regions that cover the arena, described by the pieces they are made of */
static int map_arena_mr(struct client_domain *dom, u32 i)
{
	u32 first = i * dom->pieces_per_mr;
	u32 nr = min(dom->pieces_per_mr, dom->rx.nr_pieces - first);
	struct scatterlist *sgl, *sg;
	struct ib_mr *mr;
	int n;
	u32 k;

	mr = ib_alloc_mr(dom->base.pd, IB_MR_TYPE_MEM_REG,
			 nr * (dom->rx.piece_size / CLIENT_PAGE));
	if (IS_ERR(mr))
		return PTR_ERR(mr);
	dom->rx_mr[i] = mr;

	sgl = kvcalloc(nr, sizeof(*sgl), GFP_KERNEL);
	if (!sgl)
		return -ENOMEM;
	sg_init_table(sgl, nr);
	for_each_sg(sgl, sg, nr, k) {
		sg_set_buf(sg, dom->rx.virt[first + k], dom->rx.piece_size);
		sg_dma_address(sg) = dom->rx.dma[first + k];
		sg_dma_len(sg) = dom->rx.piece_size;
	}
	n = ib_map_mr_sg(mr, sgl, nr, NULL, CLIENT_PAGE);
	kvfree(sgl);
	if (n != nr)
		return n < 0 ? n : -EINVAL;
	return 0;
}

static int alloc_arena_mrs(struct client_domain *dom)
{
	u32 i;
	int err;

	for (i = 0; i < dom->nr_rx_mr; i++) {
		err = map_arena_mr(dom, i);
		if (err) {
			free_arena_mrs(dom);
			return err;
		}
	}
	dom->arena = CLIENT_ARENA_FRESH;
	return 0;
}

static int prepare_arena(struct client_domain *dom)
{
	struct rtrs_client *clt = dom->clt;
	struct ib_device *dev = dom->base.dev;
	u32 pages, max_pages, stride;
	int err;

	dom->copy_read = rtrs_avoids_reg_mr(dev) ? clt->max_io_size :
						   clt->copy_read;
	/* A reconnect in need of memory gets no large contiguous pieces. */
	stride = ALIGN(max(dom->copy_read, 1U), SMP_CACHE_BYTES);
	dom->rx_span = DIV_ROUND_UP(stride, PIECE_SIZE);
	err = client_area_alloc(&dom->rx, dev, min(stride, PIECE_SIZE),
				clt->nr_tags * dom->rx_span, DMA_FROM_DEVICE);
	if (err)
		return err;
	pages = dom->rx.piece_size / CLIENT_PAGE;
	max_pages = dev->attrs.max_fast_reg_page_list_len;
	if (max_pages < pages * dom->rx_span)
		return -EOPNOTSUPP;
	dom->pieces_per_mr = rounddown(max_pages / pages, dom->rx_span);
	dom->nr_rx_mr = DIV_ROUND_UP(dom->rx.nr_pieces, dom->pieces_per_mr);
	dom->rx_mr = kvcalloc(dom->nr_rx_mr, sizeof(*dom->rx_mr), GFP_KERNEL);
	dom->rx_desc = kvcalloc(dom->nr_rx_mr, sizeof(*dom->rx_desc),
				GFP_KERNEL);
	if (!dom->rx_mr || !dom->rx_desc)
		return -ENOMEM;
	return alloc_arena_mrs(dom);
}

/**
 * client_domain_prepare() - allocate what requests need on this device
 * @dom:	the domain; the session's constants are known
 *
 * Context: process context, sleeps.
 * Return: 0, also if it was done before; -ENOMEM or what the device said.
 */
int client_domain_prepare(struct client_domain *dom)
{
	struct rtrs_client *clt = dom->clt;
	int err = 0;

	mutex_lock(&dom->lock);
	if (dom->prepared)
		goto unlock;
	err = client_area_alloc(&dom->tx, dom->base.dev,
				ALIGN(clt->copy_write + CLIENT_MAX_USR +
				      RTRS_MAX_IO_HDR, SMP_CACHE_BYTES),
				clt->nr_tags, DMA_TO_DEVICE);
	if (!err)
		err = prepare_arena(dom);
	if (!err) {
		dom->mr = kvcalloc(clt->nr_tags, sizeof(*dom->mr), GFP_KERNEL);
		err = dom->mr ? 0 : -ENOMEM;
	}
	if (err)
		domain_clear(dom);
	else
		dom->prepared = true;
unlock:
	mutex_unlock(&dom->lock);
	return err ?: client_domain_refill(dom);
}

/**
 * client_domain_drop_mr() - give the region of a slot up
 * @dom:	the domain
 * @tag:	the slot; no request uses it
 *
 * For regions that may still be registered: afterwards the peer cannot write
 * there any more, on any connection.
 *
 * Context: process context, sleeps.
 */
void client_domain_drop_mr(struct client_domain *dom, u32 tag)
{
	struct ib_mr *mr = dom->mr[tag];

	if (!mr)
		return;
	WRITE_ONCE(dom->mr[tag], NULL);
	xa_erase(&dom->keys, mr->rkey >> 8);
	ib_dereg_mr(mr);
}

static int refill_mr(struct client_domain *dom, u32 tag)
{
	struct ib_mr *mr;
	int err;

	mr = ib_alloc_mr(dom->base.pd, IB_MR_TYPE_MEM_REG,
			 dom->clt->max_segments);
	if (IS_ERR(mr))
		return PTR_ERR(mr);
	err = xa_insert(&dom->keys, mr->rkey >> 8, xa_mk_value(tag),
			GFP_KERNEL);
	if (err) {
		ib_dereg_mr(mr);
		return err;
	}
	/* Requests that look for it meanwhile see all of it. */
	smp_store_release(&dom->mr[tag], mr);
	return 0;
}

/**
 * client_domain_refill() - allocate the slots' regions that are missing
 * @dom:	the domain, prepared
 *
 * Context: process context, sleeps.
 * Return: 0, or what the device first said; it has as many as it would give.
 */
int client_domain_refill(struct client_domain *dom)
{
	struct rtrs_client *clt = dom->clt;
	int err = 0, ret;
	u32 tag;

	/* Reads that are all copied need no region. */
	if (clt->max_io_size <= dom->copy_read)
		return 0;
	mutex_lock(&dom->lock);
	for (tag = 0; tag < clt->nr_tags; tag++) {
		ret = dom->mr[tag] ? 0 : refill_mr(dom, tag);
		err = err ?: ret;
	}
	mutex_unlock(&dom->lock);
	return err;
}

/**
 * client_domain_refill_soon() - regions are missing, other paths need them
 * @dom:	the domain, prepared; a path that is not torn down yet uses it
 * @now:	at once; else some time after the last failure
 *
 * Context: any.
 */
void client_domain_refill_soon(struct client_domain *dom, bool now)
{
	if (now)
		mod_delayed_work(client_refill_wq, &dom->refill, 0);
	else
		queue_delayed_work(client_refill_wq, &dom->refill,
				   REFILL_JIFFIES);
}

static void arena_registered(struct ib_cq *cq, struct ib_wc *wc)
{
	struct client_path *path = container_of(wc->wr_cqe, struct client_path,
						arm_cqe);

	if (wc->status != IB_WC_SUCCESS) {
		client_path_error(path, -EIO, "memory registration failed: %s",
				  ib_wc_status_msg(wc->status));
		return;
	}
	rtrs_conn_sent(&path->conn[0]->base);
	WRITE_ONCE(path->armed, true);
	wake_up(&path->wait);
}

static int post_arena(struct client_domain *dom, struct client_path *path)
{
	struct ib_reg_wr *reg;
	u32 i, n = dom->nr_rx_mr;
	int err;

	reg = kvcalloc(n, sizeof(*reg), GFP_KERNEL);
	if (!reg)
		return -ENOMEM;
	for (i = 0; i < n; i++) {
		struct ib_mr *mr = dom->rx_mr[i];

		ib_update_fast_reg_key(mr, ib_inc_rkey(mr->rkey));
		reg[i].wr.opcode = IB_WR_REG_MR;
		reg[i].wr.wr_cqe = &path->conn[0]->base.sq_cqe;
		reg[i].wr.next = i + 1 < n ? &reg[i + 1].wr : NULL;
		reg[i].mr = mr;
		reg[i].key = mr->rkey;
		reg[i].access = IB_ACCESS_LOCAL_WRITE | IB_ACCESS_REMOTE_WRITE;
	}
	reg[n - 1].wr.wr_cqe = &path->arm_cqe;
	reg[n - 1].wr.send_flags = IB_SEND_SIGNALED;
	path->arm_cqe.done = arena_registered;
	path->armed = false;
	WRITE_ONCE(dom->arena, CLIENT_ARENA_ARMING);
	err = rtrs_conn_send(&path->conn[0]->base, &reg[0].wr, &reg[n - 1].wr,
			     n, true);
	kvfree(reg);
	return err;
}

/**
 * client_domain_arm() - have the arena registered
 * @dom:	the domain, prepared
 * @path:	an established path that may post on its service connection
 *
 * Context: process context, sleeps; under the path's op_lock.
 * Return: 0, also if it was done before; else the path's error.
 */
int client_domain_arm(struct client_domain *dom, struct client_path *path)
{
	int err = 0;
	u32 i;

	mutex_lock(&dom->lock);
	if (dom->arena == CLIENT_ARENA_ARMED)
		goto unlock;
	if (dom->arena != CLIENT_ARENA_FRESH) {
		free_arena_mrs(dom);
		err = alloc_arena_mrs(dom);
		if (err)
			goto unlock;
	}
	err = post_arena(dom, path);
	if (!err)
		err = client_wait(path, &path->armed,
				  jiffies + msecs_to_jiffies(CLIENT_WAIT_MS),
				  "the registration of memory");
	if (err)
		goto unlock;
	for (i = 0; i < dom->nr_rx_mr; i++) {
		WRITE_ONCE(dom->rx_desc[i].addr, dom->rx_mr[i]->iova);
		WRITE_ONCE(dom->rx_desc[i].key, dom->rx_mr[i]->rkey);
	}
	/* The peer may have voided it already. */
	if (cmpxchg(&dom->arena, CLIENT_ARENA_ARMING, CLIENT_ARENA_ARMED) !=
	    CLIENT_ARENA_ARMING)
		err = -EPROTO;
unlock:
	mutex_unlock(&dom->lock);
	return err;
}

/**
 * client_domain_disarm() - the arena's registration cannot be relied on
 * @dom:	the domain
 *
 * The next path that connects registers it again.
 *
 * Context: any.
 */
void client_domain_disarm(struct client_domain *dom)
{
	WRITE_ONCE(dom->arena, CLIENT_ARENA_DIRTY);
}
