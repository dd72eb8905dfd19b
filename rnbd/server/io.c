// SPDX-License-Identifier: GPL-2.0
/*
 * IO: from the message to the block layer and back.
 *
 * An operation's memory, with the bio in it, belongs to the transport and was
 * allocated with the session; nothing is allocated here. The bio points at the
 * transport's table of pages. From the moment it is submitted until its end
 * the block layer owns it; whoever ends the operation (io_end) answers first
 * and then gives the opening back, so an opening that has no I/O has answered
 * all of it.
 *
 * Operations arrive in a completion worker that must not wait. What a device
 * promises not to wait for is submitted there. What it refuses for the moment,
 * and what may sleep anyway, is taken over by a few workers per opening: a
 * device that hangs holds up its own requests only.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/ioprio.h>

#include "rnbd/server/server.h"

static void io_end(struct rnbd_server_op *p, int err)
{
	struct rnbd_opening *o = p->opening;

	/* A device may find out only now that it cannot do this. */
	if (err && p->io.op == RNBD_OP_WRITE_ZEROES &&
	    !bdev_write_zeroes_sectors(o->dev.bdev))
		err = -EOPNOTSUPP;
	rtrs_op_respond(p->op, rnbd_wire_errno(err));
	rnbd_opening_put(o);
}

/* Hand an operation to the opening's workers; wake one that is idle, if any. */
static void io_defer(struct rnbd_server_op *p)
{
	struct rnbd_opening *o = p->opening;
	unsigned long flags;
	unsigned int idle;

	spin_lock_irqsave(&o->defer_lock, flags);
	list_add_tail(&p->entry, &o->deferred);
	idle = find_first_zero_bit(&o->busy, RNBD_SUBMITTERS);
	if (idle < RNBD_SUBMITTERS) {
		__set_bit(idle, &o->busy);
		queue_work(o->session->io_wq, &o->submitter[idle].work);
	}
	spin_unlock_irqrestore(&o->defer_lock, flags);
}

static void bio_end(struct bio *bio)
{
	struct rnbd_server_op *p = bio->bi_private;
	blk_status_t status = bio->bi_status;

	bio_uninit(bio);
	if (status == BLK_STS_AGAIN && p->nowait)
		io_defer(p);
	else
		io_end(p, blk_status_to_errno(status));
}

/*
 * Writes are marked like direct I/O: the client has done its throttling, and
 * doing it again here would make a completion worker sleep.
 */
static blk_opf_t io_opf(const struct rnbd_io *io)
{
	blk_opf_t opf;

	switch (io->op) {
	case RNBD_OP_READ:
		return REQ_OP_READ;
	case RNBD_OP_WRITE:
		opf = REQ_OP_WRITE | REQ_SYNC | REQ_IDLE;
		if (io->flags & RNBD_F_FUA)
			opf |= REQ_FUA;
		if (io->flags & RNBD_F_PREFLUSH)
			opf |= REQ_PREFLUSH;
		return opf;
	case RNBD_OP_FLUSH:
		return REQ_OP_WRITE | REQ_SYNC | REQ_PREFLUSH;
	case RNBD_OP_DISCARD:
		return REQ_OP_DISCARD;
	case RNBD_OP_SECURE_ERASE:
		return REQ_OP_SECURE_ERASE;
	case RNBD_OP_WRITE_ZEROES:
		opf = REQ_OP_WRITE_ZEROES;
		if (io->flags & RNBD_F_NOUNMAP)
			opf |= REQ_NOUNMAP;
		return opf;
	}
	/* rnbd_io_decode() lets nothing else pass. */
	return REQ_OP_READ;
}

static void io_submit(struct rnbd_server_op *p, bool nowait)
{
	struct bio *bio = &p->bio;
	struct rtrs_op *op = p->op;
	bool data = rnbd_op_has_data(p->io.op);

	p->nowait = nowait;
	compat_bio_init(bio, p->opening->dev.bdev, data ? op->bvec : NULL,
			data ? op->nr_bvecs : 0,
			io_opf(&p->io) | (nowait ? REQ_NOWAIT : 0));
	bio->bi_vcnt = data ? op->nr_bvecs : 0;
	bio->bi_iter.bi_sector = p->io.sector;
	bio->bi_iter.bi_size = p->io.size;
	bio->bi_ioprio = p->io.prio;
	bio->bi_private = p;
	bio->bi_end_io = bio_end;
	submit_bio(bio);
}

/* What one bio of an operation without data may cover on this device */
static u32 max_sectors(struct block_device *bdev, enum rnbd_op op)
{
	switch (op) {
	case RNBD_OP_DISCARD:
		return bdev_max_discard_sectors(bdev);
	case RNBD_OP_SECURE_ERASE:
		return bdev_max_secure_erase_sectors(bdev);
	case RNBD_OP_WRITE_ZEROES:
		return bdev_write_zeroes_sectors(bdev);
	default:
		return U32_MAX;
	}
}

/* A client that keeps to the limits it was told never gets here. */
static int io_issue_pieces(struct rnbd_server_op *p)
{
	struct block_device *bdev = p->opening->dev.bdev;
	sector_t nr = p->io.size >> SECTOR_SHIFT;
	unsigned int flags = BLKDEV_ZERO_NOFALLBACK;

	switch (p->io.op) {
	case RNBD_OP_DISCARD:
		return compat_issue_discard(bdev, p->io.sector, nr, GFP_NOIO);
	case RNBD_OP_SECURE_ERASE:
		return blkdev_issue_secure_erase(bdev, p->io.sector, nr,
						 GFP_NOIO);
	default:
		if (p->io.flags & RNBD_F_NOUNMAP)
			flags |= BLKDEV_ZERO_NOUNMAP;
		return blkdev_issue_zeroout(bdev, p->io.sector, nr, GFP_NOIO,
					    flags);
	}
}

static void io_submit_sleeping(struct rnbd_server_op *p)
{
	u32 max = max_sectors(p->opening->dev.bdev, p->io.op);

	if (p->io.size >> SECTOR_SHIFT <= max)
		io_submit(p, false);
	else
		io_end(p, io_issue_pieces(p));
}

static struct rnbd_server_op *next_deferred(struct rnbd_submitter *s)
{
	struct rnbd_opening *o = s->opening;
	struct rnbd_server_op *p;

	spin_lock_irq(&o->defer_lock);
	p = list_first_entry_or_null(&o->deferred, struct rnbd_server_op,
				     entry);
	if (p)
		list_del(&p->entry);
	else
		__clear_bit(s - o->submitter, &o->busy);
	spin_unlock_irq(&o->defer_lock);
	return p;
}

static void submitter_work(struct work_struct *work)
{
	struct rnbd_submitter *s = container_of(work, struct rnbd_submitter,
						work);
	struct rnbd_server_op *p;

	while ((p = next_deferred(s)))
		io_submit_sleeping(p);
}

/**
 * rnbd_io_init() - prepare the workers of an opening
 * @o:		the opening
 */
void rnbd_io_init(struct rnbd_opening *o)
{
	unsigned int i;

	spin_lock_init(&o->defer_lock);
	INIT_LIST_HEAD(&o->deferred);
	for (i = 0; i < RNBD_SUBMITTERS; i++) {
		INIT_WORK(&o->submitter[i].work, submitter_work);
		o->submitter[i].opening = o;
	}
}

/**
 * rnbd_io_flush() - wait until the workers of an opening have let go of it
 * @o:		the opening; all its I/O has ended
 *
 * Context: process context.
 */
void rnbd_io_flush(struct rnbd_opening *o)
{
	unsigned int i;

	for (i = 0; i < RNBD_SUBMITTERS; i++)
		flush_work(&o->submitter[i].work);
}

static bool may_sleep(const struct rnbd_opening *o, enum rnbd_op op)
{
	switch (op) {
	case RNBD_OP_READ:
	case RNBD_OP_WRITE:
		return !o->nowait;
	case RNBD_OP_FLUSH:
		/* Without a cache the block layer ends it at once. */
		return bdev_write_cache(o->dev.bdev);
	default:
		return true;
	}
}

/*
 * A class the kernel does not know would be an index out of bounds to some
 * schedulers, and real time is nothing a client may ask for.
 */
static u16 safe_prio(u16 prio)
{
	u16 level = prio & 7;

	switch (IOPRIO_PRIO_CLASS(prio)) {
	case IOPRIO_CLASS_RT:
	case IOPRIO_CLASS_BE:
		return IOPRIO_PRIO_VALUE(IOPRIO_CLASS_BE, level);
	case IOPRIO_CLASS_IDLE:
		return IOPRIO_PRIO_VALUE(IOPRIO_CLASS_IDLE, 0);
	default:
		return 0;
	}
}

/* The rules that need the device; rnbd_io_decode() has checked the others. */
static int io_check(const struct rnbd_opening *o, const struct rnbd_io *io)
{
	struct block_device *bdev = o->dev.bdev;
	u32 mask = bdev_logical_block_size(bdev) - 1;
	sector_t nsectors = bdev_nr_sectors(bdev);

	if (rnbd_opening_is_dead(o))
		return -ENODEV;
	if (io->op == RNBD_OP_FLUSH)
		return 0;
	if (io->op != RNBD_OP_READ &&
	    (o->mode == RNBD_ACCESS_RO || bdev_read_only(bdev)))
		return -EROFS;
	if (!max_sectors(bdev, io->op))
		return -EOPNOTSUPP;
	if (io->size & mask || io->sector & (mask >> SECTOR_SHIFT))
		return -EINVAL;
	if (io->sector > nsectors ||
	    io->size >> SECTOR_SHIFT > nsectors - io->sector)
		return -EIO;
	return 0;
}

/**
 * rnbd_io_request() - an IO message
 * @sess:	the session
 * @op:		the operation that carries it
 *
 * Context: process context of a shared completion queue; does not wait.
 * Return: 0, the answer is or will be given; or the errno to answer.
 */
int rnbd_io_request(struct rnbd_session *sess, struct rtrs_op *op)
{
	struct rnbd_server_op *p = rtrs_op_priv(op);
	struct rnbd_opening *o;
	int err;

	err = rnbd_io_decode(op->usr, op->usr_len, op->dir, op->data_len,
			     &p->io);
	if (err || op->nr_bvecs > U16_MAX) {
		pr_err_ratelimited("%s: malformed IO (%u bytes, %s with %u bytes of data)\n",
				   sess->name, op->usr_len,
				   op->dir == RTRS_DIR_READ ? "READ" : "WRITE",
				   op->data_len);
		return err ?: -EINVAL;
	}
	o = rnbd_opening_get(sess, p->io.device_id);
	if (!o)
		return -ENOTCONN;
	err = io_check(o, &p->io);
	/* Nobody tells us that a disk has been removed from the system. */
	if (err == -ENODEV && rnbd_opening_claim(o, true)) {
		pr_info("%s: %s has been removed, closing it\n",
			sess->name, o->name);
		rnbd_opening_close(o, NULL);
	}
	if (err) {
		pr_err_ratelimited("%s: %s: refused op %u at sector %llu, %u bytes: %pe\n",
				   sess->name, o->name, p->io.op, p->io.sector,
				   p->io.size, ERR_PTR(err));
		rnbd_opening_put(o);
		return err;
	}
	p->op = op;
	p->opening = o;
	p->io.prio = READ_ONCE(sess->version) >= 2 ? safe_prio(p->io.prio) : 0;
	if (may_sleep(o, p->io.op))
		io_defer(p);
	else
		io_submit(p, p->io.op != RNBD_OP_FLUSH);
	return 0;
}
