/* 5.15, 83cbce957446: device_add_disk() returns an error */
/* no mentions: void */
#include <linux/blkdev.h>
#include <linux/blk-mq.h>

int probe(struct gendisk *disk);
int probe(struct gendisk *disk)
{
	return device_add_disk(NULL, disk, NULL);
}
