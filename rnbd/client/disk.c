// SPDX-License-Identifier: GPL-2.0
/*
 * The block device.
 *
 * Requests.  The tag of the block layer is the buffer id of the transport:
 * one tag set per session, host-wide, shared by its devices.  Everything a
 * request needs is behind it in memory that is allocated with the tag set:
 * no allocation, no lock, no wait list here.  A request goes to the transport
 * in ->queue_rq(), in whatever context the block layer calls that (it may not
 * sleep), and comes back through rnbd_rq_done() in softirq or process context,
 * exactly once.  From ->queue_rq() until then the message, the scatterlist and
 * the pages belong to the transport.  What lost its last path ends, or waits
 * for the session to return: wait.c.
 *
 * State and handle of the device are read, and the request submitted, in one
 * RCU section; see device.c and session.c for who waits for it.
 *
 * The gendisk is allocated by map after the server has described the device,
 * and dies with the last reference after unmap; ->free_disk() then gives back
 * the disk's reference to the device.  Opens are counted under the device's
 * lock, so that "nobody has it open" and "it is being unmapped" are decided
 * together.
 */
#include "compat/core.h"
#include "rnbd/client/client.h"

#include <linux/idr.h>
#include <linux/rcupdate.h>

/* The N of rnbdN: taken with the disk, free again when that is freed. */
static DEFINE_IDA(rnbd_ida);

/* How often a request without a timeout is looked at, should it get one */
#define RNBD_NO_TIMEOUT		(10 * HZ)


/* Has queue/io_timeout passed since it was handed over? */
enum rnbd_late {
	RNBD_IN_TIME,
	RNBD_LATE,	/* once: it goes on over another path, if there is one */
	RNBD_GIVEN_UP,	/* twice: it has cost the path */
};

struct rnbd_rq {
	struct rtrs_request	req;
	struct rnbd_wire_io	msg;
	int			error;
	enum rnbd_late		late;
	struct scatterlist	sgl[];
};

/*
 * Requests
 */

static int rnbd_rq_op(struct request *rq)
{
	switch (req_op(rq)) {
	case REQ_OP_READ:
		return RNBD_OP_READ;
	case REQ_OP_WRITE:
		return RNBD_OP_WRITE;
	case REQ_OP_FLUSH:
		return RNBD_OP_FLUSH;
	case REQ_OP_DISCARD:
		return RNBD_OP_DISCARD;
	case REQ_OP_SECURE_ERASE:
		return RNBD_OP_SECURE_ERASE;
	case REQ_OP_WRITE_ZEROES:
		return RNBD_OP_WRITE_ZEROES;
	default:
		return -EOPNOTSUPP;
	}
}

/* Must all that is acknowledged survive a crash of the server?  See wait.c. */
static bool rnbd_is_durable(const struct rnbd_dev *dev)
{
	return dev->geom.writeback && READ_ONCE(dev->fail_tmo);
}

static void rnbd_rq_encode(struct rnbd_rq *io, struct request *rq,
			   enum rnbd_op op, const struct rnbd_dev *dev)
{
	struct rnbd_io msg = {
		.device_id	= READ_ONCE(dev->id),
		.op		= op,
	};

	if (op == RNBD_OP_FLUSH) {
		/* Older servers know a flush by FUA; the sector means nothing. */
		msg.sector = U64_MAX;
		msg.flags = RNBD_F_SYNC | RNBD_F_FUA;
	} else {
		msg.sector = blk_rq_pos(rq);
		msg.size = blk_rq_bytes(rq);
		msg.prio = req_get_ioprio(rq);
		if (op_is_sync(rq->cmd_flags))
			msg.flags |= RNBD_F_SYNC;
		if (op == RNBD_OP_WRITE &&
		    (rq->cmd_flags & REQ_FUA || rnbd_is_durable(dev)))
			msg.flags |= RNBD_F_FUA;
		if (op == RNBD_OP_WRITE_ZEROES &&
		    (rq->cmd_flags & REQ_NOUNMAP))
			msg.flags |= RNBD_F_NOUNMAP;
	}
	rnbd_io_encode(&io->msg, &msg);
}

static void rnbd_rq_done(struct rtrs_request *req, int error)
{
	struct rnbd_rq *io = container_of(req, struct rnbd_rq, req);

	io->error = error;
	blk_mq_complete_request(blk_mq_rq_from_pdu(io));
}

static void rnbd_rq_prepare(struct rnbd_rq *io, struct request *rq,
			    enum rnbd_op op)
{
	struct rtrs_request *req = &io->req;

	io->late = RNBD_IN_TIME;
	memset(req, 0, sizeof(*req));
	req->dir = rnbd_io_dir(op);
	req->tag = rq->tag;
	req->queue = rq->mq_hctx->queue_num;
	req->usr = &io->msg;
	req->usr_len = sizeof(io->msg);
	req->done = rnbd_rq_done;
	if (rnbd_op_has_data(op)) {
		sg_init_table(io->sgl, blk_rq_nr_phys_segments(rq));
		req->nents = compat_rq_map_sg(rq, io->sgl);
		req->sgl = io->sgl;
		req->data_len = blk_rq_bytes(rq);
	}
}

/* What is 0 in queue/io_timeout means never, which the block layer cannot do. */
static unsigned int rnbd_timeout(struct request_queue *q)
{
	return READ_ONCE(q->rq_timeout) ?: RNBD_NO_TIMEOUT;
}

static blk_status_t rnbd_queue_rq(struct blk_mq_hw_ctx *hctx,
				  const struct blk_mq_queue_data *bd)
{
	struct request *rq = bd->rq;
	struct rnbd_rq *io = blk_mq_rq_to_pdu(rq);
	struct rnbd_dev *dev = hctx->queue->queuedata;
	struct rnbd_session *sess = dev->sess;
	int op = rnbd_rq_op(rq);
	int err = -ECONNABORTED;

	if (op < 0)
		return BLK_STS_NOTSUPP;
	if (unlikely(op == RNBD_OP_WRITE_ZEROES && rnbd_is_durable(dev))) {
		/* Who asked writes them as data then; nothing to complain of. */
		rq->rq_flags |= RQF_QUIET;
		return BLK_STS_NOTSUPP;
	}
	rnbd_rq_prepare(io, rq, op);

	rcu_read_lock();
	/* The state before the handle: pairs with rnbd_dev_set_state(). */
	if (likely(smp_load_acquire(&dev->state) == RNBD_DEV_OPEN &&
		   !READ_ONCE(sess->shut))) {
		rnbd_rq_encode(io, rq, op, dev);
		rq->timeout = rnbd_timeout(rq->q);
		blk_mq_start_request(rq);
		err = rtrs_client_submit(sess->clt, &io->req, bd->last);
	}
	rcu_read_unlock();

	switch (err) {
	case 0:
		return BLK_STS_OK;
	case -EAGAIN:
	case -ENOMEM:
		return BLK_STS_RESOURCE;
	case -ECONNABORTED:
		return rnbd_may_wait(dev) ? BLK_STS_RESOURCE : BLK_STS_IOERR;
	default:
		return BLK_STS_IOERR;
	}
}

/**
 * rnbd_disk_expire() - a request takes too long
 * @rq:		started, and kept from being freed by the caller
 * @how:	what shall become of it
 *
 * Context: any.
 */
void rnbd_disk_expire(struct request *rq, enum rtrs_expire how)
{
	struct rnbd_rq *io = blk_mq_rq_to_pdu(rq);
	struct rnbd_dev *dev = rq->q->queuedata;
	struct rnbd_session *sess = dev->sess;

	rcu_read_lock();
	if (!READ_ONCE(sess->shut))
		rtrs_client_expire(sess->clt, &io->req, how);
	rcu_read_unlock();
}

/*
 * queue/io_timeout has passed.  The first time another path is another chance,
 * with the same time for it; the last path is not given up then, since it may
 * be the one that the request, or another one like it, has just been moved to.
 * Never RTRS_EXPIRE_END: a write that has ended must not be executed later.
 * When all paths are gone the server sees to that before it lets us in again.
 *
 * Only who has cost the last path ends with it.  If that is lost for another
 * reason, such as a server that has crashed, what is late is so because of that
 * and may wait for the session like all the rest.
 */
static enum blk_eh_timer_return rnbd_timed_out(struct request *rq)
{
	struct rnbd_rq *io = blk_mq_rq_to_pdu(rq);
	bool again = READ_ONCE(io->late) != RNBD_IN_TIME;

	if (rq->timeout != rnbd_timeout(rq->q)) {
		/* It was changed meanwhile, and counts from here on. */
		rq->timeout = rnbd_timeout(rq->q);
	} else if (READ_ONCE(rq->q->rq_timeout)) {
		/* First: it may end before we are back. */
		WRITE_ONCE(io->late, again ? RNBD_GIVEN_UP : RNBD_LATE);
		rnbd_disk_expire(rq, again ? RTRS_EXPIRE_PATH :
					     RTRS_EXPIRE_MOVE);
	}
	return BLK_EH_RESET_TIMER;
}
COMPAT_MQ_TIMEOUT(rnbd_timed_out);

static void rnbd_commit_rqs(struct blk_mq_hw_ctx *hctx)
{
	struct rnbd_dev *dev = hctx->queue->queuedata;
	struct rnbd_session *sess = dev->sess;

	rcu_read_lock();
	if (!READ_ONCE(sess->shut))
		rtrs_client_commit(sess->clt, hctx->queue_num);
	rcu_read_unlock();
}

static int rnbd_poll(struct blk_mq_hw_ctx *hctx, struct io_comp_batch *iob)
{
	struct rnbd_dev *dev = hctx->queue->queuedata;
	struct rnbd_session *sess = dev->sess;
	int n = 0;

	rcu_read_lock();
	if (!READ_ONCE(sess->shut))
		n = rtrs_client_poll(sess->clt, hctx->queue_num);
	rcu_read_unlock();
	return max(n, 0);
}
COMPAT_MQ_POLL(rnbd_poll);

/* Let it wait for the session to return, if it may. */
static bool rnbd_requeue(struct request *rq)
{
	struct request_queue *q = rq->q;

	if (!rnbd_may_wait(q->queuedata))
		return false;
	/* Requeued, it may end, and all others, before we are through. */
	percpu_ref_get(&q->q_usage_counter);
	blk_mq_requeue_request(rq, false);
	blk_mq_delay_kick_requeue_list(q, RNBD_REQUEUE_MS);
	percpu_ref_put(&q->q_usage_counter);
	return true;
}

static void rnbd_complete_rq(struct request *rq)
{
	struct rnbd_rq *io = blk_mq_rq_to_pdu(rq);
	int err = io->error;

	/* For the want of a path */
	if (unlikely(err == -ECONNABORTED)) {
		if (READ_ONCE(io->late) == RNBD_GIVEN_UP)
			err = -ETIMEDOUT;
		else if (rnbd_requeue(rq))
			return;
	}
	blk_mq_end_request(rq, errno_to_blk_status(err));
}

static void rnbd_map_queues(struct blk_mq_tag_set *set)
{
	struct rnbd_session *sess = container_of(set, struct rnbd_session,
						 tag_set);
	unsigned int nr_poll = 0;

	if (set->nr_maps > HCTX_TYPE_POLL)
		nr_poll = min(sess->lim.nr_poll_queues, set->nr_hw_queues - 1);

	set->map[HCTX_TYPE_DEFAULT].nr_queues = set->nr_hw_queues - nr_poll;
	set->map[HCTX_TYPE_DEFAULT].queue_offset = 0;
	blk_mq_map_queues(&set->map[HCTX_TYPE_DEFAULT]);
	if (!nr_poll)
		return;
	set->map[HCTX_TYPE_READ].nr_queues = 0;
	set->map[HCTX_TYPE_POLL].nr_queues = nr_poll;
	set->map[HCTX_TYPE_POLL].queue_offset = set->nr_hw_queues - nr_poll;
	blk_mq_map_queues(&set->map[HCTX_TYPE_POLL]);
}
COMPAT_MQ_MAP_QUEUES(rnbd_map_queues);

static const struct blk_mq_ops rnbd_mq_ops = {
	.queue_rq	= rnbd_queue_rq,
	.commit_rqs	= rnbd_commit_rqs,
	.complete	= rnbd_complete_rq,
	.timeout	= compat_timeout_op(rnbd_timed_out),
	.map_queues	= compat_map_queues_op(rnbd_map_queues),
	.poll		= compat_poll_op(rnbd_poll),
};

/**
 * rnbd_tag_set_init() - the tags of a session
 * @sess:	the session; its transport is open and @lim filled in
 *
 * Some are kept back for messages, so that OPEN and CLOSE do not have to wait
 * for I/O.
 *
 * Context: process, may sleep.
 *
 * Return: 0 or an errno.
 */
int rnbd_tag_set_init(struct rnbd_session *sess)
{
	const struct rtrs_client_limits *lim = &sess->lim;
	struct blk_mq_tag_set *set = &sess->tag_set;

	sess->nr_msg_tags = lim->nr_tags >= 16 ? 2 : lim->nr_tags >= 4 ? 1 : 0;
	set->ops = &rnbd_mq_ops;
	set->queue_depth = lim->nr_tags - sess->nr_msg_tags;
	set->numa_node = NUMA_NO_NODE;
	set->flags = COMPAT_MQ_F_MERGE | BLK_MQ_F_TAG_HCTX_SHARED |
		     COMPAT_MQ_F_NO_SCHED;
	set->cmd_size = struct_size_t(struct rnbd_rq, sgl, lim->max_segments);
	set->nr_hw_queues = lim->nr_queues + lim->nr_poll_queues;
	set->nr_maps = lim->nr_poll_queues ? HCTX_MAX_TYPES : 1;
	return blk_mq_alloc_tag_set(set);
}

/*
 * The disk
 */

static int rnbd_disk_open(struct gendisk *disk, blk_mode_t mode)
{
	struct rnbd_dev *dev = disk->private_data;
	int err = 0;

	if ((mode & BLK_OPEN_WRITE) && dev->mode == RNBD_ACCESS_RO)
		return -EPERM;
	mutex_lock(&dev->lock);
	if (dev->state == RNBD_DEV_UNMAPPED)
		err = -EIO;
	else
		dev->openers++;
	mutex_unlock(&dev->lock);
	return err;
}
COMPAT_DISK_OPEN(rnbd_disk_open);

static void rnbd_disk_release(struct gendisk *disk)
{
	struct rnbd_dev *dev = disk->private_data;

	mutex_lock(&dev->lock);
	dev->openers--;
	mutex_unlock(&dev->lock);
}
COMPAT_DISK_RELEASE(rnbd_disk_release);

static int rnbd_disk_getgeo(struct gendisk *disk, struct hd_geometry *geo)
{
	geo->heads = 4;
	geo->sectors = 16;
	geo->cylinders = min_t(sector_t, get_capacity(disk) / 64, U16_MAX);
	return 0;
}
COMPAT_DISK_GETGEO(rnbd_disk_getgeo);

/* A mapping made with access_mode=ro cannot be talked into more. */
static int rnbd_disk_set_read_only(struct block_device *bdev, bool ro)
{
	struct rnbd_dev *dev = bdev->bd_disk->private_data;

	return !ro && dev->mode == RNBD_ACCESS_RO ? -EPERM : 0;
}

static void rnbd_disk_free(struct gendisk *disk)
{
	struct rnbd_dev *dev = disk->private_data;

	ida_free(&rnbd_ida, dev->index);
	rnbd_dev_put(dev);
}
COMPAT_FREE_DISK(rnbd_disk_free);

static const struct block_device_operations rnbd_disk_ops = {
	.owner		= THIS_MODULE,
	.open		= compat_open_op(rnbd_disk_open),
	.release	= compat_release_op(rnbd_disk_release),
	.getgeo		= compat_getgeo_op(rnbd_disk_getgeo),
	.set_read_only	= rnbd_disk_set_read_only,
	COMPAT_FREE_DISK_OP(rnbd_disk_free)
};

/**
 * rnbd_disk_sectors() - capacity of the disk
 * @rsp:	the server's description
 *
 * Return: whole logical blocks, in sectors, as many as the kernel can address.
 */
sector_t rnbd_disk_sectors(const struct rnbd_open_rsp *rsp)
{
	u64 n = min_t(u64, rsp->nsectors, LLONG_MAX >> SECTOR_SHIFT);

	return round_down(n, (u64)rsp->logical_block_size >> SECTOR_SHIFT);
}

/**
 * rnbd_disk_check() - can this kernel make a disk of it?
 * @dev:	the device
 * @rsp:	the server's description, decoded without complaint
 *
 * Context: any.
 *
 * Return: 0 or -EINVAL, with a line in the log.
 */
int rnbd_disk_check(struct rnbd_dev *dev, const struct rnbd_open_rsp *rsp)
{
	u32 size = rsp->logical_block_size;

	if (blk_validate_block_size(size)) {
		rnbd_err(dev, "logical blocks of %u bytes are more than this kernel can handle\n",
			 size);
		return -EINVAL;
	}
	if (size > dev->sess->lim.max_io_size) {
		rnbd_err(dev, "a logical block of %u bytes does not fit into a request of %u\n",
			 size, dev->sess->lim.max_io_size);
		return -EINVAL;
	}
	return 0;
}

/* What the wire can carry in one request, in whole logical blocks. */
static u32 rnbd_cap_sectors(u32 sectors, u32 block_size)
{
	return round_down(min_t(u32, sectors, UINT_MAX >> SECTOR_SHIFT),
			  block_size >> SECTOR_SHIFT);
}

static void rnbd_disk_limits(struct queue_limits *lim,
			     const struct rtrs_client_limits *rtrs,
			     const struct rnbd_open_rsp *rsp)
{
	u32 block = rsp->logical_block_size;
	u32 opt = rounddown_pow_of_two(rtrs->max_io_size);

	lim->logical_block_size = block;
	lim->physical_block_size = rsp->physical_block_size;
	lim->max_hw_sectors = round_down(rtrs->max_io_size, block) >>
			      SECTOR_SHIFT;
	lim->max_segments = min_t(u32, rtrs->max_segments, USHRT_MAX);
	lim->max_segment_size = UINT_MAX;
	lim->virt_boundary_mask = SZ_4K - 1;
	lim->io_opt = opt >= rsp->physical_block_size ? opt : 0;
	lim->max_write_zeroes_sectors =
		rnbd_cap_sectors(rsp->max_write_zeroes_sectors, block);
	lim->max_hw_discard_sectors =
		rnbd_cap_sectors(rsp->max_discard_sectors, block);
	lim->max_discard_segments = 1;
	if (!lim->max_hw_discard_sectors)
		return;
	lim->discard_granularity = max(rsp->discard_granularity,
				       rsp->physical_block_size);
	lim->discard_alignment = rsp->discard_alignment;
}

/**
 * rnbd_disk_alloc() - make the disk of a device, not visible yet
 * @dev:	the device
 * @rsp:	the server's description, accepted by rnbd_disk_check()
 *
 * Context: process, may sleep; only the map operation.
 *
 * Return: 0; -ENOSPC: no number left; or another errno.
 */
int rnbd_disk_alloc(struct rnbd_dev *dev, const struct rnbd_open_rsp *rsp)
{
	struct queue_limits lim = {};
	blk_features_t features = 0;
	struct gendisk *disk;

	dev->index = ida_alloc_max(&rnbd_ida, RNBD_MAX_DEVICES - 1, GFP_KERNEL);
	if (dev->index < 0)
		return dev->index;
	rnbd_disk_limits(&lim, &dev->sess->lim, rsp);
	if (rsp->writeback)
		features |= BLK_FEAT_WRITE_CACHE;
	if (rsp->writeback && rsp->fua)
		features |= BLK_FEAT_FUA;
	if (rsp->secure_erase)
		features |= COMPAT_FEAT_SECURE_ERASE;
	disk = compat_alloc_disk(&dev->sess->tag_set, &lim, features, dev);
	if (IS_ERR(disk)) {
		ida_free(&rnbd_ida, dev->index);
		return PTR_ERR(disk);
	}
	blk_queue_rq_timeout(disk->queue, 0);
	disk->major = rnbd_major;
	disk->first_minor = dev->index * RNBD_MINORS;
	disk->minors = RNBD_MINORS;
	disk->fops = &rnbd_disk_ops;
	disk->private_data = dev;
	snprintf(disk->disk_name, sizeof(disk->disk_name), "rnbd%d",
		 dev->index);
	set_capacity(disk, rnbd_disk_sectors(rsp));
	if (dev->mode == RNBD_ACCESS_RO)
		set_disk_ro(disk, true);
	dev->disk = disk;
	return 0;
}

/**
 * rnbd_disk_drop() - undo rnbd_disk_alloc()
 * @dev:	the device; rnbd_disk_add() was not called or failed
 *
 * Context: process, may sleep; only the map operation.
 */
void rnbd_disk_drop(struct rnbd_dev *dev)
{
	if (!dev->disk)
		return;
	compat_drop_disk(dev->disk);
	ida_free(&rnbd_ida, dev->index);
}

/**
 * rnbd_disk_add() - make the disk visible
 * @dev:	the device, open
 *
 * Reads the partition table, with ordinary requests.
 *
 * Context: process, may sleep; only the map operation.
 *
 * Return: 0 or an errno.
 */
int rnbd_disk_add(struct rnbd_dev *dev)
{
	int err;

	/* The disk's, given back by ->free_disk() if it was ever visible. */
	kref_get(&dev->ref);
	err = compat_add_disk(dev->disk, rnbd_disk_groups,
			      compat_free_hook(rnbd_disk_free));
	if (err) {
		rnbd_err(dev, "cannot add the disk: %pe\n", ERR_PTR(err));
		rnbd_dev_put(dev);
	}
	return err;
}
