/* 6.18, 4fc8728aa34f: getgeo() of a disk takes the gendisk */
/* no mentions: hd_geometry */
#include <linux/blkdev.h>
#include <linux/hdreg.h>

static int probe_getgeo(struct gendisk *disk, struct hd_geometry *geo)
{
	return 0;
}

extern const struct block_device_operations probe;
const struct block_device_operations probe = {
	.getgeo = probe_getgeo,
};
