/* 5.19, 08e688fdb8f7: a block device is asked for its cache and FUA */
/* no mentions: bdev_write_cache bdev_fua */
#include <linux/blkdev.h>

bool probe(struct block_device *bdev);
bool probe(struct block_device *bdev)
{
	return bdev_write_cache(bdev) && bdev_fua(bdev);
}
