/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Adapters for somebody who uses a block device without being a filesystem:
 * opening by path and submitting without waiting.
 */
#ifndef COMPAT_BDEV_H
#define COMPAT_BDEV_H

#include <linux/blkdev.h>
#include <linux/blk-mq.h>
#include <linux/err.h>
#include <linux/file.h>
#include <linux/fs.h>
#include <linux/fs_struct.h>

/*
 * scoped_with_init_fs() { ... }: paths are looked up from the root of user
 * space. Until 7.3 that was a kernel thread's own root, too.
 */
#if !HAVE_SCOPED_WITH_INIT_FS
#define scoped_with_init_fs()
#endif

#if !HAVE_BLK_OPF_T
typedef unsigned int blk_opf_t;
#endif

#if !HAVE_BDEV_NR_SECTORS
static inline sector_t bdev_nr_sectors(struct block_device *bdev)
{
	return i_size_read(bdev->bd_inode) >> SECTOR_SHIFT;
}
#endif

/* What a device can do; before 5.19 that was asked of its queue. */
#if !HAVE_BDEV_MAX_DISCARD_SECTORS
static inline unsigned int bdev_max_discard_sectors(struct block_device *bdev)
{
	struct request_queue *q = bdev_get_queue(bdev);

	return blk_queue_discard(q) ? q->limits.max_discard_sectors : 0;
}
#endif

#if !HAVE_BDEV_DISCARD_GRANULARITY
static inline unsigned int bdev_discard_granularity(struct block_device *bdev)
{
	return bdev_get_queue(bdev)->limits.discard_granularity;
}
#endif

#if !HAVE_BDEV_WRITE_CACHE
static inline bool bdev_write_cache(struct block_device *bdev)
{
	return test_bit(QUEUE_FLAG_WC, &bdev_get_queue(bdev)->queue_flags);
}

static inline bool bdev_fua(struct block_device *bdev)
{
	return test_bit(QUEUE_FLAG_FUA, &bdev_get_queue(bdev)->queue_flags);
}
#endif

#if !HAVE_BDEV_NOWAIT
static inline bool bdev_nowait(struct block_device *bdev)
{
	return blk_queue_nowait(bdev_get_queue(bdev));
}
#endif

/* Before 5.19 to erase was to discard with a flag. */
#if HAVE_BLKDEV_ISSUE_SECURE_ERASE
#define compat_issue_discard(bdev, sector, nr, gfp) \
	blkdev_issue_discard(bdev, sector, nr, gfp)
#else
#define compat_issue_discard(bdev, sector, nr, gfp) \
	blkdev_issue_discard(bdev, sector, nr, gfp, 0)
#define blkdev_issue_secure_erase(bdev, sector, nr, gfp) \
	blkdev_issue_discard(bdev, sector, nr, gfp, BLKDEV_DISCARD_SECURE)
static inline unsigned int
bdev_max_secure_erase_sectors(struct block_device *bdev)
{
	struct request_queue *q = bdev_get_queue(bdev);

	return blk_queue_secure_erase(q) ? q->limits.max_discard_sectors : 0;
}
#endif

/* bio_init(bio, bdev, table, max_vecs, opf) */
#if HAVE_BIO_INIT_WITH_BDEV
#define compat_bio_init(bio, bdev, table, max_vecs, opf) \
	bio_init(bio, bdev, table, max_vecs, opf)
#else
static inline void compat_bio_init(struct bio *bio, struct block_device *bdev,
				   struct bio_vec *table,
				   unsigned short max_vecs, blk_opf_t opf)
{
	bio_init(bio, table, max_vecs);
	bio_set_dev(bio, bdev);
	bio->bi_opf = opf;
}
#endif

/**
 * compat_bdev_removed() - has the driver removed the disk?
 * @bdev:	open
 *
 * Context: any.
 */
static inline bool compat_bdev_removed(struct block_device *bdev)
{
#if HAVE_GD_DEAD
	return test_bit(GD_DEAD, &bdev->bd_disk->state);
#else
	return !(READ_ONCE(bdev->bd_disk->flags) & GENHD_FL_UP);
#endif
}

/**
 * struct compat_bdev - an open block device
 * @bdev:	the device
 *
 * The rest is what this kernel wants back when the device is closed: a file
 * (since 6.9), a handle (6.7), nothing (6.5) or the mode (before).
 */
struct compat_bdev {
	struct block_device *bdev;
#if HAVE_BDEV_FILE_OPEN_BY_PATH
	struct file *file;
#elif HAVE_BDEV_OPEN_BY_PATH
	struct bdev_handle *handle;
#elif !HAVE_BLKDEV_GET_BY_PATH_HOPS
	fmode_t mode;
#endif
};

/**
 * compat_bdev_open() - open a block device by path, shared with other users
 * @dev:	result, valid only on success
 * @path:	absolute path
 * @write:	also for writing
 *
 * Context: process context, may sleep for long.
 * Return: 0 or the errno of the open.
 */
static inline int compat_bdev_open(struct compat_bdev *dev, const char *path,
				   bool write)
{
#if HAVE_BDEV_FILE_OPEN_BY_PATH
	blk_mode_t mode = BLK_OPEN_READ | (write ? BLK_OPEN_WRITE : 0);
	struct file *file = bdev_file_open_by_path(path, mode, NULL, NULL);

	if (IS_ERR(file))
		return PTR_ERR(file);
	dev->file = file;
	dev->bdev = file_bdev(file);
#elif HAVE_BDEV_OPEN_BY_PATH
	blk_mode_t mode = BLK_OPEN_READ | (write ? BLK_OPEN_WRITE : 0);
	struct bdev_handle *handle = bdev_open_by_path(path, mode, NULL, NULL);

	if (IS_ERR(handle))
		return PTR_ERR(handle);
	dev->handle = handle;
	dev->bdev = handle->bdev;
#elif HAVE_BLKDEV_GET_BY_PATH_HOPS
	blk_mode_t mode = BLK_OPEN_READ | (write ? BLK_OPEN_WRITE : 0);
	struct block_device *bdev = blkdev_get_by_path(path, mode, NULL, NULL);

	if (IS_ERR(bdev))
		return PTR_ERR(bdev);
	dev->bdev = bdev;
#else
	fmode_t mode = FMODE_READ | (write ? FMODE_WRITE : 0);
	struct block_device *bdev = blkdev_get_by_path(path, mode, NULL);

	if (IS_ERR(bdev))
		return PTR_ERR(bdev);
	dev->mode = mode;
	dev->bdev = bdev;
#endif
	return 0;
}

/**
 * compat_bdev_close() - close what compat_bdev_open() has opened
 * @dev:	the open device
 *
 * The device is closed when this returns, not at some later time (the plain
 * fput() of a kernel thread would leave it to a work).
 *
 * Context: process context, may sleep for long.
 */
static inline void compat_bdev_close(struct compat_bdev *dev)
{
#if HAVE_BDEV_FILE_OPEN_BY_PATH
	__fput_sync(dev->file);
#elif HAVE_BDEV_OPEN_BY_PATH
	bdev_release(dev->handle);
#elif HAVE_BLKDEV_GET_BY_PATH_HOPS
	blkdev_put(dev->bdev, NULL);
#else
	blkdev_put(dev->bdev, dev->mode);
#endif
	dev->bdev = NULL;
}

/**
 * compat_bdev_nowait() - can REQ_NOWAIT be relied on?
 * @bdev:	the device
 *
 * Narrower than bdev_nowait(): a driver that may sleep when it is handed a
 * request does so in the submitter whatever the flag says. And a driver on top
 * of others passes the flag on; before 6.16 md took the members' "would wait"
 * for a write error and threw the member out of the array.
 *
 * Looks at the driver's tag set, which it may free when the disk is removed,
 * open or not: to be asked when the device has just been opened.
 */
static inline bool compat_bdev_nowait(struct block_device *bdev)
{
	struct request_queue *q = bdev_get_queue(bdev);

	return queue_is_mq(q) && bdev_nowait(bdev) &&
	       !(q->tag_set->flags & BLK_MQ_F_BLOCKING);
}

#endif /* COMPAT_BDEV_H */
