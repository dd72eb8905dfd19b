/* 6.1, 568ec936bf13: a block device is asked whether it honours REQ_NOWAIT */
/* no mentions: bdev_nowait */
#include <linux/blkdev.h>

bool probe(struct block_device *bdev);
bool probe(struct block_device *bdev)
{
	return bdev_nowait(bdev);
}
