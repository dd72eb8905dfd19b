/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Adapters for the driver side of the block layer: disks, queues, tag sets.
 * Where an old function of the same name has another signature, the adapter's
 * own name begins with compat_.
 */
#ifndef COMPAT_BLOCK_H
#define COMPAT_BLOCK_H

#include <linux/blk-mq.h>
#include <linux/blkdev.h>
#include <linux/hdreg.h>

/* Merging is always wanted; until 6.14 it had to be asked for. */
#if HAVE_BLK_MQ_F_SHOULD_MERGE
#define COMPAT_MQ_F_MERGE BLK_MQ_F_SHOULD_MERGE
#else
#define COMPAT_MQ_F_MERGE 0
#endif

/* Before 5.15 there was only "no scheduler, ever", which is not for us to say. */
#if HAVE_BLK_MQ_F_NO_SCHED_BY_DEFAULT
#define COMPAT_MQ_F_NO_SCHED BLK_MQ_F_NO_SCHED_BY_DEFAULT
#else
#define COMPAT_MQ_F_NO_SCHED 0
#endif

#if !HAVE_QUEUE_LIMITS_FEATURES
typedef unsigned int __bitwise blk_features_t;
#define BLK_FEAT_WRITE_CACHE	((__force blk_features_t)(1u << 0))
#define BLK_FEAT_FUA		((__force blk_features_t)(1u << 1))
#endif
/* Ours: what can be discarded can be erased, too. Not a bit of the kernel's. */
#define COMPAT_FEAT_SECURE_ERASE ((__force blk_features_t)(1u << 31))

#if !HAVE_BLK_MQ_ALLOC_DISK_LIMITS
/*
 * Before 5.19 discarding was a flag of the queue, and so was erasing, which
 * shared the limits of discarding.
 */
static inline void compat_set_discard(struct request_queue *q,
				      const struct queue_limits *lim,
				      bool erase)
{
	blk_queue_max_discard_sectors(q, lim->max_hw_discard_sectors);
	q->limits.discard_granularity = lim->discard_granularity;
	q->limits.discard_alignment = lim->discard_alignment;
#if HAVE_BLKDEV_ISSUE_SECURE_ERASE
	if (erase)
		blk_queue_max_secure_erase_sectors(q, lim->max_hw_discard_sectors);
#else
	if (erase)
		blk_queue_flag_set(QUEUE_FLAG_SECERASE, q);
#endif
#if !HAVE_BDEV_MAX_DISCARD_SECTORS
	if (lim->max_hw_discard_sectors)
		blk_queue_flag_set(QUEUE_FLAG_DISCARD, q);
#endif
}

static inline void compat_set_limits(struct request_queue *q,
				     const struct queue_limits *lim)
{
	blk_queue_logical_block_size(q, lim->logical_block_size);
	blk_queue_physical_block_size(q, lim->physical_block_size);
	blk_queue_max_hw_sectors(q, lim->max_hw_sectors);
	blk_queue_max_segments(q, lim->max_segments);
	if (lim->virt_boundary_mask)
		blk_queue_virt_boundary(q, lim->virt_boundary_mask);
	blk_queue_io_opt(q, lim->io_opt);
	blk_queue_max_write_zeroes_sectors(q, lim->max_write_zeroes_sectors);
}
#endif

#if !HAVE_BLK_MQ_ALLOC_DISK
/* A queue, and a disk that has it; alloc_disk() wants a number of minors. */
static inline struct gendisk *compat_alloc_plain_disk(struct blk_mq_tag_set *set,
						      void *data)
{
	struct request_queue *q = blk_mq_init_queue(set);
	struct gendisk *disk;

	if (IS_ERR(q))
		return ERR_CAST(q);
	disk = alloc_disk_node(1, set->numa_node);
	if (!disk) {
		blk_cleanup_queue(q);
		return ERR_PTR(-ENOMEM);
	}
	q->queuedata = data;
	disk->queue = q;
	return disk;
}
#elif !HAVE_BLK_MQ_ALLOC_DISK_LIMITS
#define compat_alloc_plain_disk(set, data) blk_mq_alloc_disk(set, data)
#endif

/*
 * blk_mq_alloc_disk(set, lim, data) with lim->features = features. Before 6.9
 * the limits were set afterwards, one by one, and before 6.11 the features
 * were flags of the queue and a disk was rotational unless it said otherwise.
 */
static inline struct gendisk *compat_alloc_disk(struct blk_mq_tag_set *set,
						struct queue_limits *lim,
						blk_features_t features,
						void *data)
{
	bool erase = lim->max_hw_discard_sectors &&
		     (features & COMPAT_FEAT_SECURE_ERASE);
	struct gendisk *disk;

#if HAVE_QUEUE_LIMITS_FEATURES
	lim->features |= features & ~COMPAT_FEAT_SECURE_ERASE;
#endif
#if HAVE_BLK_MQ_ALLOC_DISK_LIMITS
	if (erase)
		lim->max_secure_erase_sectors = lim->max_hw_discard_sectors;
	disk = blk_mq_alloc_disk(set, lim, data);
#else
	disk = compat_alloc_plain_disk(set, data);
	if (!IS_ERR(disk)) {
		compat_set_limits(disk->queue, lim);
		compat_set_discard(disk->queue, lim, erase);
	}
#endif
#if !HAVE_QUEUE_LIMITS_FEATURES
	if (!IS_ERR(disk)) {
		blk_queue_flag_set(QUEUE_FLAG_NONROT, disk->queue);
		blk_queue_write_cache(disk->queue,
				      !!(features & BLK_FEAT_WRITE_CACHE),
				      !!(features & BLK_FEAT_FUA));
	}
#endif
	return disk;
}

/*
 * What is to be done when the last reference to a disk that was visible goes:
 * COMPAT_FREE_DISK(fn); stands after the function, COMPAT_FREE_DISK_OP(fn) in
 * the block_device_operations, and compat_free_hook(fn) goes to
 * compat_add_disk(). Before 5.18 only the device could be asked.
 */
#if HAVE_FREE_DISK_OP
#define COMPAT_FREE_DISK(fn)	static_assert(1)
#define COMPAT_FREE_DISK_OP(fn)	.free_disk = fn,
#define compat_free_hook(fn)	NULL
#else
#define COMPAT_FREE_DISK_OP(fn)
#define compat_free_hook(fn)	compat_##fn
#define COMPAT_FREE_DISK(fn)						\
	static void compat_##fn(struct device *dev)			\
	{								\
		fn(dev_to_disk(dev));					\
		dev->type->release(dev);				\
	}								\
	static_assert(1)
#endif

/**
 * compat_add_disk() - device_add_disk(NULL, disk, groups)
 * @disk:	not visible yet
 * @groups:	attributes, there before the uevent
 * @hook:	compat_free_hook() of the function that frees the driver's part
 *
 * Before 5.15 it could not fail, but for a warning in the log.
 *
 * Context: process, may sleep.
 * Return: 0 or an errno; the hook is called only if 0.
 */
static inline int compat_add_disk(struct gendisk *disk,
				  const struct attribute_group **groups,
				  void (*hook)(struct device *dev))
{
	int err = 0;

#if !HAVE_FREE_DISK_OP
	disk_to_dev(disk)->release = hook;
#endif
#if HAVE_DEVICE_ADD_DISK_FAILS
	err = device_add_disk(NULL, disk, groups);
#else
	device_add_disk(NULL, disk, groups);
#endif
#if !HAVE_FREE_DISK_OP
	if (err)
		disk_to_dev(disk)->release = NULL;
#endif
	return err;
}

/**
 * compat_del_disk() - del_gendisk(), after which no request comes
 * @disk:	visible
 *
 * Before 6.0 that was what blk_cleanup_queue() did.  put_disk() comes next.
 *
 * Context: process, waits for the requests.
 */
static inline void compat_del_disk(struct gendisk *disk)
{
	del_gendisk(disk);
#if HAVE_BLK_CLEANUP_QUEUE
	blk_cleanup_queue(disk->queue);
#endif
}

/**
 * compat_drop_disk() - put_disk() of a disk that was never visible
 * @disk:	the disk
 */
static inline void compat_drop_disk(struct gendisk *disk)
{
#if HAVE_BLK_CLEANUP_QUEUE && HAVE_BLK_MQ_ALLOC_DISK
	blk_cleanup_disk(disk);
#elif HAVE_BLK_CLEANUP_QUEUE
	blk_cleanup_queue(disk->queue);
	/* Its own reference would have come with device_add_disk(). */
	disk->queue = NULL;
	put_disk(disk);
#else
	put_disk(disk);
#endif
}

/* blk_mq_alloc_queue(set, NULL, NULL); blk_mq_init_queue() before 6.9. */
static inline struct request_queue *compat_alloc_queue(struct blk_mq_tag_set *set)
{
#if HAVE_BLK_MQ_ALLOC_DISK_LIMITS
	return blk_mq_alloc_queue(set, NULL, NULL);
#else
	return blk_mq_init_queue(set);
#endif
}

/*
 * The end of such a queue. 6.0, which no distribution carries on, put it in
 * blk_mq_destroy_queue() already.
 */
static inline void compat_free_queue(struct request_queue *q)
{
#if HAVE_BLK_CLEANUP_QUEUE
	blk_cleanup_queue(q);
#else
	blk_mq_destroy_queue(q);
	blk_put_queue(q);
#endif
}

/*
 * Disk operations that take the gendisk: COMPAT_DISK_OPEN(fn); stands after the
 * function, compat_open_op(fn) in the block_device_operations. In the same way
 * release and getgeo.
 */
#if HAVE_DISK_OPEN_BY_GENDISK
#define COMPAT_DISK_OPEN(fn)	static_assert(1)
#define COMPAT_DISK_RELEASE(fn)	static_assert(1)
#define compat_open_op(fn)	fn
#define compat_release_op(fn)	fn
#else
typedef fmode_t blk_mode_t;
#define BLK_OPEN_WRITE		FMODE_WRITE
#define compat_open_op(fn)	compat_##fn
#define compat_release_op(fn)	compat_##fn
#define COMPAT_DISK_OPEN(fn)						\
	static int compat_##fn(struct block_device *bdev, fmode_t mode)	\
	{								\
		return fn(bdev->bd_disk, mode);				\
	}								\
	static_assert(1)
#define COMPAT_DISK_RELEASE(fn)						\
	static void compat_##fn(struct gendisk *disk, fmode_t mode)	\
	{								\
		fn(disk);						\
	}								\
	static_assert(1)
#endif

#if HAVE_GETGEO_BY_GENDISK
#define COMPAT_DISK_GETGEO(fn)	static_assert(1)
#define compat_getgeo_op(fn)	fn
#else
#define compat_getgeo_op(fn)	compat_##fn
#define COMPAT_DISK_GETGEO(fn)						\
	static int compat_##fn(struct block_device *bdev,		\
			       struct hd_geometry *geo)			\
	{								\
		return fn(bdev->bd_disk, geo);				\
	}								\
	static_assert(1)
#endif

/*
 * Operations of a queue, in the same way: COMPAT_MQ_TIMEOUT(fn), compat_timeout_op(fn)
 * and so on. COMPAT_TAG_ITER(fn) is for blk_mq_tagset_busy_iter().
 */
#if HAVE_MQ_TIMEOUT_ONE_ARG
#define COMPAT_MQ_TIMEOUT(fn)	static_assert(1)
#define compat_timeout_op(fn)	fn
#else
#define compat_timeout_op(fn)	compat_##fn
#define COMPAT_MQ_TIMEOUT(fn)						\
	static enum blk_eh_timer_return compat_##fn(struct request *rq,	\
						    bool reserved)	\
	{								\
		return fn(rq);						\
	}								\
	static_assert(1)
#endif

#if HAVE_BUSY_TAG_ITER_TWO_ARGS
#define COMPAT_TAG_ITER(fn)	static_assert(1)
#define compat_tag_iter(fn)	fn
#else
#define compat_tag_iter(fn)	compat_##fn
#define COMPAT_TAG_ITER(fn)						\
	static bool compat_##fn(struct request *rq, void *data,		\
				bool reserved)				\
	{								\
		return fn(rq, data);					\
	}								\
	static_assert(1)
#endif

#if HAVE_MAP_QUEUES_VOID
#define COMPAT_MQ_MAP_QUEUES(fn) static_assert(1)
#define compat_map_queues_op(fn) fn
#else
#define compat_map_queues_op(fn) compat_##fn
#define COMPAT_MQ_MAP_QUEUES(fn)					\
	static int compat_##fn(struct blk_mq_tag_set *set)		\
	{								\
		fn(set);						\
		return 0;						\
	}								\
	static_assert(1)
#endif

#if HAVE_MQ_POLL_BATCH
#define COMPAT_MQ_POLL(fn)	static_assert(1)
#define compat_poll_op(fn)	fn
#else
struct io_comp_batch;
#define compat_poll_op(fn)	compat_##fn
#define COMPAT_MQ_POLL(fn)						\
	static int compat_##fn(struct blk_mq_hw_ctx *hctx)		\
	{								\
		return fn(hctx, NULL);					\
	}								\
	static_assert(1)
#endif

/* blk_rq_map_sg(rq, sg) */
#if HAVE_BLK_RQ_MAP_SG_TWO_ARGS
#define compat_rq_map_sg(rq, sg) blk_rq_map_sg(rq, sg)
#else
#define compat_rq_map_sg(rq, sg) blk_rq_map_sg((rq)->q, rq, sg)
#endif

#endif /* COMPAT_BLOCK_H */
