/* 5.19, 70200574cc22: a block device is asked whether it discards; the flag of the queue went */
/* no mentions: bdev_max_discard_sectors */
#include <linux/blkdev.h>

unsigned int probe(struct block_device *bdev);
unsigned int probe(struct block_device *bdev)
{
	return bdev_max_discard_sectors(bdev);
}
