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

#if !HAVE_QUEUE_LIMITS_FEATURES
typedef unsigned int __bitwise blk_features_t;
#define BLK_FEAT_WRITE_CACHE	((__force blk_features_t)(1u << 0))
#define BLK_FEAT_FUA		((__force blk_features_t)(1u << 1))
#endif

#if !HAVE_BLK_MQ_ALLOC_DISK_LIMITS
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
	blk_queue_max_discard_sectors(q, lim->max_hw_discard_sectors);
	q->limits.discard_granularity = lim->discard_granularity;
	q->limits.discard_alignment = lim->discard_alignment;
	blk_queue_max_secure_erase_sectors(q, lim->max_secure_erase_sectors);
	blk_queue_max_write_zeroes_sectors(q, lim->max_write_zeroes_sectors);
}
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
	struct gendisk *disk;

#if HAVE_QUEUE_LIMITS_FEATURES
	lim->features |= features;
#endif
#if HAVE_BLK_MQ_ALLOC_DISK_LIMITS
	disk = blk_mq_alloc_disk(set, lim, data);
#else
	disk = blk_mq_alloc_disk(set, data);
	if (!IS_ERR(disk))
		compat_set_limits(disk->queue, lim);
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

/* blk_rq_map_sg(rq, sg) */
#if HAVE_BLK_RQ_MAP_SG_TWO_ARGS
#define compat_rq_map_sg(rq, sg) blk_rq_map_sg(rq, sg)
#else
#define compat_rq_map_sg(rq, sg) blk_rq_map_sg((rq)->q, rq, sg)
#endif

#endif /* COMPAT_BLOCK_H */
