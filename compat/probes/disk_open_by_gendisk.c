/* 6.5, d32e2bf83791: open() and release() of a disk take the gendisk, and a blk_mode_t */
/* no mentions: blk_mode_t gendisk open */
#include <linux/blkdev.h>

static int probe_open(struct gendisk *disk, blk_mode_t mode)
{
	return 0;
}

static void probe_release(struct gendisk *disk)
{
}

extern const struct block_device_operations probe;
const struct block_device_operations probe = {
	.open = probe_open,
	.release = probe_release,
};
