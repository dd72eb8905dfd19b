/* 5.11, a782483cc1f8: bdev_nr_sectors() */
/* no mentions: bdev_nr_sectors */
#include <linux/blkdev.h>

sector_t probe(struct block_device *bdev);
sector_t probe(struct block_device *bdev)
{
	return bdev_nr_sectors(bdev);
}
