/* 5.19, 7b47ef52d0a2: a block device is asked for its discard granularity */
/* no mentions: bdev_discard_granularity */
#include <linux/blkdev.h>

unsigned int probe(struct block_device *bdev);
unsigned int probe(struct block_device *bdev)
{
	return bdev_discard_granularity(bdev);
}
