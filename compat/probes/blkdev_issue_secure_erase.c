/* 5.19, 44abff2c0b97: to erase is no longer to discard with a flag */
/* no mentions: blkdev_issue_secure_erase */
#include <linux/blkdev.h>

int probe(struct block_device *bdev);
int probe(struct block_device *bdev)
{
	return blkdev_issue_secure_erase(bdev, 0, bdev_max_secure_erase_sectors(bdev),
					 GFP_NOIO);
}
