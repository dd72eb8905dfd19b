// SPDX-License-Identifier: GPL-2.0
/*
 * Requests.
 *
 * A request lives in the slot of its tag, which holds everything it needs.  Its
 * data travels in one of four ways:
 *
 *	small write	copied into the slot's buffer together with message and
 *			header, which is ours for ever; nothing to wait for
 *	large write	the device gathers user memory by its local key; plain
 *			RDMA writes carry the front when one work request has
 *			too few gather entries; user memory is released on the
 *			later of answer and own send completion, because a lost
 *			acknowledgement can make the device read it again
 *	small read	the server writes into the slot's part of the arena;
 *			copied when the answer comes
 *	large read	user memory is registered for this request alone; it is
 *			released when its key was seen invalidated, by the
 *			server or else by ourselves
 *
 * The state of a slot is one atomic word.  The submitter makes it BUSY; four
 * more bits say that the submitter has let go of it (QUEUED), the server has
 * answered (RESPONDED), the device does not read user memory (SENT), the peer
 * cannot write it (INVALID); what does not apply is set from the start.  Each
 * bit is set once, by whoever saw its cause, in any order; who sets the last
 * one completes the request.  The answer's errno and a generation share the
 * word, so that an answer for a slot that was reused meanwhile cannot slip in.
 *
 * A path that is lost is drained first; then client_abort_requests() alone
 * touches the slots that are busy on it (failover.c).
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/dma-mapping.h>
#include <linux/export.h>
#include <linux/scatterlist.h>

#include "client.h"
#include "trace.h"

/* What a submission hands to the connection */
struct post {
	struct ib_send_wr	*first;
	unsigned int		nr;
	u32			bits;	/* of the slot's state, set from the start */
};

static struct client_domain *slot_domain(const struct client_slot *slot)
{
	return slot->conn->path->dom;
}

static struct ib_device *slot_device(const struct client_slot *slot)
{
	return slot_domain(slot)->base.dev;
}

static enum dma_data_direction dma_dir(const struct rtrs_request *req)
{
	return req->dir == RTRS_DIR_WRITE ? DMA_TO_DEVICE : DMA_FROM_DEVICE;
}

/*
 * The slot's part of the arena
 */

static u32 arena_part(const struct client_slot *slot)
{
	return slot->tag * slot_domain(slot)->rx_span;
}

/* Bytes of a read of @len bytes that are in a part, @done being before it */
static u32 arena_bytes(const struct client_domain *dom, u32 len, u32 done)
{
	return min(len - done, dom->rx.stride);
}

static void arena_desc(const struct client_slot *slot, struct rtrs_desc *desc)
{
	const struct client_domain *dom = slot_domain(slot);
	u32 piece = arena_part(slot) / dom->rx.per_piece;
	u32 mr = piece / dom->pieces_per_mr;

	desc->addr = READ_ONCE(dom->rx_desc[mr].addr) +
		     (u64)(piece % dom->pieces_per_mr) * dom->rx.piece_size +
		     arena_part(slot) % dom->rx.per_piece * dom->rx.stride;
	desc->key = READ_ONCE(dom->rx_desc[mr].key);
}

static void arena_give(const struct client_slot *slot)
{
	const struct client_domain *dom = slot_domain(slot);
	u32 part = arena_part(slot), len = slot->req->data_len;
	u32 n, done;

	for (done = 0; done < len; done += n, part++) {
		n = arena_bytes(dom, len, done);
		ib_dma_sync_single_for_device(dom->base.dev,
					      client_area_dma(&dom->rx, part),
					      n, DMA_FROM_DEVICE);
	}
}

/*
 * Completion
 */

/**
 * client_slot_unmap() - the device has no business with user memory any more
 * @slot:	busy; nothing happens if its data is not mapped
 *
 * Context: any.
 */
void client_slot_unmap(struct client_slot *slot)
{
	struct rtrs_request *req = slot->req;

	if (!slot->nr_dma)
		return;
	ib_dma_unmap_sg(slot_device(slot), req->sgl, req->nents, dma_dir(req));
	slot->nr_dma = 0;
}

static void copy_in(struct client_slot *slot)
{
	struct client_domain *dom = slot_domain(slot);
	struct rtrs_request *req = slot->req;
	u32 part = arena_part(slot), n, done;

	for (done = 0; done < req->data_len; done += n, part++) {
		n = arena_bytes(dom, req->data_len, done);
		ib_dma_sync_single_for_cpu(dom->base.dev,
					   client_area_dma(&dom->rx, part), n,
					   DMA_FROM_DEVICE);
		sg_pcopy_from_buffer(req->sgl, req->nents,
				     client_area_virt(&dom->rx, part), n, done);
	}
}

/**
 * client_slot_end() - give the slot back and the request to its user
 * @slot:	busy, or in the hands of a failover; off its connection
 * @error:	result of the request
 * @answered:	it is the server's
 *
 * Context: any that the user's done callback may be called in.
 */
void client_slot_end(struct client_slot *slot, int error, bool answered)
{
	struct rtrs_request *req = slot->req;

	WRITE_ONCE(slot->req, NULL);
	if (unlikely(slot->claimed))
		client_id_done(slot->conn->path->clt, slot, answered);
	/* Pairs with the submitter's acquire: the slot is as we left it. */
	atomic_set_release(&slot->state, atomic_read(&slot->state) &
			   SLOT_GEN_MASK);
	req->done(req, error);
}

/* A server that answers before it was asked must not make us reuse the slot. */
static bool still_chained(struct client_slot *slot)
{
	struct rtrs_conn *conn = &slot->conn->base;
	struct ib_send_wr *wr;
	unsigned long flags;

	spin_lock_irqsave(&conn->sq_lock, flags);
	for (wr = conn->chain; wr && wr != &slot->wr.wr; wr = wr->next)
		;
	spin_unlock_irqrestore(&conn->sq_lock, flags);
	return wr;
}

static void finish(struct client_slot *slot, u32 state)
{
	struct rtrs_request *req = slot->req;
	int error = client_slot_error(state);

	if (slot->chained && still_chained(slot)) {
		/* Stays busy; the path's teardown completes it. */
		client_path_error(slot->conn->path, -EPROTO,
				  "answer to a request that was not sent");
		return;
	}
	if (slot->copied && !error && req->dir == RTRS_DIR_READ &&
	    req->data_len)
		copy_in(slot);
	client_slot_unmap(slot);
	trace_rtrs_client_complete(slot, error);
	atomic_dec(&slot->conn->inflight);
	client_slot_end(slot, error, true);
}

/*
 * Post the invalidations that wait for room in the send queue.  Completions run
 * meanwhile; inv_pending is set before the first attempt, so that whoever gives
 * credits back after a failed one comes here again.  A slot leaves the list
 * before it is posted, for then it may be done with and used elsewhere.
 */
static void post_invalidations(struct client_conn *conn)
{
	struct client_slot *slot;

	lockdep_assert_held(&conn->inv_lock);

	while (!list_empty(&conn->inv_wait)) {
		WRITE_ONCE(conn->inv_pending, true);
		slot = list_first_entry(&conn->inv_wait, struct client_slot,
					inv_entry);
		list_del_init(&slot->inv_entry);
		if (rtrs_conn_send(&conn->base, &slot->inv, &slot->inv, 1,
				   true)) {
			list_add(&slot->inv_entry, &conn->inv_wait);
			return;
		}
	}
	WRITE_ONCE(conn->inv_pending, false);
}

/* The server did not invalidate the key: do it before memory is given back. */
static void invalidate(struct client_slot *slot)
{
	struct client_conn *conn = slot->conn;
	unsigned long flags;

	slot->inv = (struct ib_send_wr){
		.wr_cqe		= &slot->inv_cqe,
		.opcode		= IB_WR_LOCAL_INV,
		.send_flags	= IB_SEND_SIGNALED,
		.ex.invalidate_rkey = slot_domain(slot)->mr[slot->tag]->rkey,
	};
	spin_lock_irqsave(&conn->inv_lock, flags);
	list_add_tail(&slot->inv_entry, &conn->inv_wait);
	post_invalidations(conn);
	spin_unlock_irqrestore(&conn->inv_lock, flags);
}

/* @bit was set just now and made the state @state. */
static void advance(struct client_slot *slot, u32 bit, u32 state)
{
	const u32 answered = SLOT_QUEUED | SLOT_RESPONDED;

	if ((state & SLOT_DONE) == SLOT_DONE)
		finish(slot, state);
	else if (bit & answered && (state & answered) == answered &&
		 !(state & SLOT_INVALID))
		invalidate(slot);
}

static void set_bit_and_advance(struct client_slot *slot, u32 bit)
{
	u32 old = atomic_fetch_or(bit, &slot->state);

	advance(slot, bit, old | bit);
}

/**
 * client_slot_respond() - the server answered a request
 * @conn:	connection the answer came on
 * @id:		buffer id, below the session's depth
 * @error:	0 or negative errno of at most 9 bits
 *
 * Context: completion handler.
 * Return: false if no request with this id waits for an answer on @conn.
 */
bool client_slot_respond(struct client_conn *conn, u32 id, int error)
{
	struct client_slot *slot = READ_ONCE(conn->path->clt->by_id[id]);
	int old, new;

	if (!slot)
		return false;
	old = atomic_read_acquire(&slot->state);
	do {
		if (!(old & SLOT_BUSY) || old & SLOT_RESPONDED ||
		    READ_ONCE(slot->conn) != conn ||
		    READ_ONCE(slot->id) != id)
			return false;
		new = old | SLOT_RESPONDED | (u32)-error << SLOT_ERR_SHIFT;
	} while (!atomic_try_cmpxchg(&slot->state, &old, new));
	advance(slot, SLOT_RESPONDED, new);
	return true;
}

/**
 * client_slot_invalidated() - the server invalidated a key
 * @conn:	connection it did so on
 * @rkey:	the key, from the work completion
 *
 * Context: completion handler.
 * Return: false if no request on @conn asked for it.
 */
bool client_slot_invalidated(struct client_conn *conn, u32 rkey)
{
	struct client_domain *dom = conn->path->dom;
	struct client_slot *slot;
	struct ib_mr *mr;
	void *entry;
	int old, new;

	entry = xa_load(&dom->keys, rkey >> 8);
	if (!entry) {
		/* It can only have been the arena's. */
		client_domain_disarm(dom);
		return false;
	}
	slot = &conn->path->clt->slot[xa_to_value(entry)];
	old = atomic_read_acquire(&slot->state);
	do {
		/* The region is looked at last: while we own the slot it stays. */
		if (!(old & SLOT_BUSY) ||
		    old & (SLOT_RESPONDED | SLOT_INVALID) ||
		    READ_ONCE(slot->conn) != conn)
			return false;
		mr = READ_ONCE(dom->mr[slot->tag]);
		if (!mr || mr->rkey != rkey)
			return false;
		new = old | SLOT_INVALID;
	} while (!atomic_try_cmpxchg(&slot->state, &old, new));
	return true;
}

static void sent_done(struct ib_cq *cq, struct ib_wc *wc)
{
	struct client_slot *slot = container_of(wc->wr_cqe, struct client_slot,
						sent_cqe);
	struct client_conn *conn = slot->conn;

	if (unlikely(wc->status != IB_WC_SUCCESS)) {
		client_path_error(conn->path, -EIO,
				  "connection %u: write failed: %s",
				  conn->base.cid, ib_wc_status_msg(wc->status));
		return;
	}
	rtrs_conn_sent(&conn->base);
	set_bit_and_advance(slot, SLOT_SENT);
}

static void inv_done(struct ib_cq *cq, struct ib_wc *wc)
{
	struct client_slot *slot = container_of(wc->wr_cqe, struct client_slot,
						inv_cqe);
	struct client_conn *conn = slot->conn;

	if (unlikely(wc->status != IB_WC_SUCCESS)) {
		client_path_error(conn->path, -EIO,
				  "connection %u: invalidation failed: %s",
				  conn->base.cid, ib_wc_status_msg(wc->status));
		return;
	}
	rtrs_conn_sent(&conn->base);
	set_bit_and_advance(slot, SLOT_INVALID);
}

static void conn_error(struct rtrs_conn *base, const char *what, int err)
{
	struct client_conn *conn = to_client_conn(base);

	client_path_error(conn->path, err, "connection %u: %s", base->cid,
			  what);
}

static void conn_sent(struct rtrs_conn *base)
{
	struct client_conn *conn = to_client_conn(base);
	unsigned long flags;

	if (likely(!READ_ONCE(conn->inv_pending)))
		return;
	spin_lock_irqsave(&conn->inv_lock, flags);
	post_invalidations(conn);
	spin_unlock_irqrestore(&conn->inv_lock, flags);
}

static void conn_poll(struct rtrs_conn *base)
{
	client_conn_poll(to_client_conn(base));
}

const struct rtrs_conn_ops client_conn_ops = {
	.error	= conn_error,
	.sent	= conn_sent,
	.poll	= conn_poll,
};

/**
 * client_slot_init() - what is the same for all requests of a slot
 * @slot:	zeroed, with its tag, id and storage
 */
void client_slot_init(struct client_slot *slot)
{
	slot->sent_cqe.done = sent_done;
	slot->inv_cqe.done = inv_done;
	INIT_LIST_HEAD(&slot->inv_entry);
}

/*
 * Submission
 */

/* Message and header behind @at, in the slot's transmit buffer */
static u32 put_header(struct client_slot *slot, void *at,
		      const struct rtrs_desc *desc)
{
	struct rtrs_request *req = slot->req;

	memcpy(at, req->usr, req->usr_len);
	at += req->usr_len;
	if (req->dir == RTRS_DIR_WRITE)
		return req->usr_len + rtrs_write_hdr_encode(at, req->usr_len);
	return req->usr_len + rtrs_read_hdr_encode(at, req->usr_len,
						   !slot->copied, desc);
}

/* Fill a work request that writes @nr gather entries to the chunk at @off. */
static void fill_write(struct client_slot *slot, struct ib_rdma_wr *wr,
		       struct ib_sge *sge, u32 nr, u32 off)
{
	const struct rtrs_chunk_ref *chunk =
		&slot->conn->path->chunk[slot->id];

	wr->wr.next = NULL;
	wr->wr.wr_cqe = &slot->conn->base.sq_cqe;
	wr->wr.sg_list = sge;
	wr->wr.num_sge = nr;
	wr->wr.opcode = IB_WR_RDMA_WRITE;
	wr->wr.send_flags = 0;
	wr->remote_addr = chunk->addr + off;
	wr->rkey = READ_ONCE(chunk->key);
}

/* Fill the work request that carries the immediate. */
static void fill_request(struct client_slot *slot, struct ib_sge *sge, u32 nr,
			 u32 off)
{
	struct rtrs_request *req = slot->req;
	u32 imm = rtrs_io_req_imm(slot->conn->path->clt->depth, slot->id,
				  req->data_len + req->usr_len);

	fill_write(slot, &slot->wr, sge, nr, off);
	slot->wr.wr.opcode = IB_WR_RDMA_WRITE_WITH_IMM;
	slot->wr.wr.ex.imm_data = cpu_to_be32(imm);
}

/* One gather entry: @len bytes of the slot's transmit buffer */
static void own_sge(struct client_slot *slot, struct ib_sge *sge, u32 len)
{
	struct client_domain *dom = slot_domain(slot);

	sge->addr = client_area_dma(&dom->tx, slot->tag);
	sge->length = len;
	sge->lkey = dom->base.pd->local_dma_lkey;
	ib_dma_sync_single_for_device(dom->base.dev, sge->addr, len,
				      DMA_TO_DEVICE);
}

static int map(struct client_slot *slot)
{
	struct rtrs_request *req = slot->req;
	int n;

	n = ib_dma_map_sg(slot_device(slot), req->sgl, req->nents,
			  dma_dir(req));
	if (n <= 0)
		return -ENOMEM;
	slot->nr_dma = n;
	return 0;
}

static int build_small_write(struct client_slot *slot, struct post *post)
{
	struct rtrs_request *req = slot->req;
	void *tx = client_area_virt(&slot_domain(slot)->tx, slot->tag);
	u32 len = req->data_len;

	if (len && sg_copy_to_buffer(req->sgl, req->nents, tx, len) != len)
		return -EINVAL;
	len += put_header(slot, tx + len, NULL);
	own_sge(slot, slot->sge, len);
	fill_request(slot, slot->sge, 1, 0);
	post->bits = SLOT_SENT | SLOT_INVALID;
	return 0;
}

/* Gather entries of the data; their number is slot->nr_dma. */
static int gather(struct client_slot *slot)
{
	u32 lkey = slot_domain(slot)->base.pd->local_dma_lkey;
	struct rtrs_request *req = slot->req;
	struct scatterlist *sg;
	u32 i, sum = 0;

	for_each_sg(req->sgl, sg, slot->nr_dma, i) {
		slot->sge[i].addr = sg_dma_address(sg);
		slot->sge[i].length = sg_dma_len(sg);
		slot->sge[i].lkey = lkey;
		sum += sg_dma_len(sg);
	}
	return sum == req->data_len ? 0 : -EINVAL;
}

static int build_large_write(struct client_slot *slot, struct post *post)
{
	void *tx = client_area_virt(&slot_domain(slot)->tx, slot->tag);
	u32 max = slot->conn->path->clt->max_sge;
	struct ib_sge *sge = slot->sge;
	struct ib_send_wr **link = &post->first;
	u32 i, k, left, off = 0;
	int err;

	err = map(slot);
	if (err)
		return err;
	err = gather(slot);
	if (err) {
		client_slot_unmap(slot);
		return err;
	}
	own_sge(slot, &sge[slot->nr_dma], put_header(slot, tx, NULL));
	left = slot->nr_dma + 1;
	for (i = 0; left > max; i++, left -= max, sge += max) {
		fill_write(slot, &slot->front[i], sge, max, off);
		for (k = 0; k < max; k++)
			off += sge[k].length;
		*link = &slot->front[i].wr;
		link = &slot->front[i].wr.next;
	}
	fill_request(slot, sge, left, off);
	*link = &slot->wr.wr;
	slot->wr.wr.wr_cqe = &slot->sent_cqe;
	slot->wr.wr.send_flags = IB_SEND_SIGNALED;
	post->nr = i + 1;
	post->bits = SLOT_INVALID;
	return 0;
}

static int build_small_read(struct client_slot *slot, struct post *post)
{
	struct rtrs_request *req = slot->req;
	void *tx = client_area_virt(&slot_domain(slot)->tx, slot->tag);
	struct rtrs_desc desc = { .len = req->data_len };

	if (req->data_len) {
		arena_desc(slot, &desc);
		arena_give(slot);
	}
	own_sge(slot, slot->sge,
		put_header(slot, tx, req->data_len ? &desc : NULL));
	fill_request(slot, slot->sge, 1, req->data_len);
	post->bits = SLOT_SENT | SLOT_INVALID;
	return 0;
}

static int map_region(struct client_slot *slot, struct ib_mr *mr)
{
	struct rtrs_request *req = slot->req;
	int err, n;

	err = map(slot);
	if (err)
		return err;
	n = ib_map_mr_sg(mr, req->sgl, slot->nr_dma, NULL, CLIENT_PAGE);
	if (n != slot->nr_dma || mr->length != req->data_len) {
		client_slot_unmap(slot);
		return n < 0 ? n : -EINVAL;
	}
	ib_update_fast_reg_key(mr, ib_inc_rkey(mr->rkey));
	return 0;
}

static int build_large_read(struct client_slot *slot, struct post *post)
{
	struct client_domain *dom = slot_domain(slot);
	void *tx = client_area_virt(&dom->tx, slot->tag);
	struct ib_mr *mr = READ_ONCE(dom->mr[slot->tag]);
	struct rtrs_request *req = slot->req;
	struct rtrs_desc desc;
	int err;

	if (!mr) {
		client_domain_refill_soon(dom, false);
		return -ENOMEM;
	}
	err = map_region(slot, mr);
	if (err)
		return err;
	desc.addr = mr->iova;
	desc.key = mr->rkey;
	desc.len = req->data_len;
	own_sge(slot, slot->sge, put_header(slot, tx, &desc));
	fill_request(slot, slot->sge, 1, req->data_len);

	slot->reg = (struct ib_reg_wr){
		.wr.next	= &slot->wr.wr,
		.wr.wr_cqe	= &slot->conn->base.sq_cqe,
		.wr.opcode	= IB_WR_REG_MR,
		.mr		= mr,
		.key		= mr->rkey,
		.access		= IB_ACCESS_LOCAL_WRITE |
				  IB_ACCESS_REMOTE_WRITE,
	};
	post->first = &slot->reg.wr;
	post->nr = 2;
	post->bits = SLOT_SENT;
	return 0;
}

static int build(struct client_slot *slot, struct post *post)
{
	struct rtrs_client *clt = slot->conn->path->clt;
	struct rtrs_request *req = slot->req;

	post->first = &slot->wr.wr;
	post->nr = 1;
	slot->nr_dma = 0;
	if (req->dir == RTRS_DIR_WRITE) {
		slot->copied = req->data_len <= clt->copy_write;
		return slot->copied ? build_small_write(slot, post) :
				      build_large_write(slot, post);
	}
	slot->copied = req->data_len <= slot_domain(slot)->copy_read;
	return slot->copied ? build_small_read(slot, post) :
			      build_large_read(slot, post);
}

/**
 * client_submit_on() - submit a request to a path
 * @path:	CONNECTED when it was looked at, under rcu_read_lock()
 * @req:	the request, checked; its slot is free
 * @last:	post now
 *
 * Context: any.
 * Return: 0; the request is in flight.  Or an errno, and nothing has happened:
 * -EAGAIN no room in the send queue; -ECONNABORTED the path is about to go;
 * -ENOMEM, -EINVAL the data could not be mapped.
 */
int client_submit_on(struct client_path *path, struct rtrs_request *req,
		     bool last)
{
	struct client_conn *conn = client_conn_of(path, req->queue);
	struct client_slot *slot = &path->clt->slot[req->tag];
	u32 gen = atomic_read_acquire(&slot->state) & SLOT_GEN_MASK;
	struct post post;
	int err;

	WRITE_ONCE(slot->req, req);
	WRITE_ONCE(slot->conn, conn);
	slot->chained = !last;
	err = build(slot, &post);
	if (err)
		goto free;
	trace_rtrs_client_post(slot);
	atomic_inc(&conn->inflight);
	/* From here on an answer finds everything above. */
	atomic_set_release(&slot->state, (gen + SLOT_GEN) | SLOT_BUSY |
			   post.bits);
	err = rtrs_conn_send(&conn->base, post.first, &slot->wr.wr, post.nr,
			     last);
	if (likely(!err)) {
		this_cpu_inc(path->stats->dir[req->dir].count);
		this_cpu_add(path->stats->dir[req->dir].bytes,
			     req->usr_len + req->data_len);
		set_bit_and_advance(slot, SLOT_QUEUED);
		return 0;
	}
	atomic_dec(&conn->inflight);
	client_slot_unmap(slot);
	atomic_set_release(&slot->state, gen + SLOT_GEN);
free:
	WRITE_ONCE(slot->req, NULL);
	return err == -ENOTCONN ? -ECONNABORTED : err;
}
