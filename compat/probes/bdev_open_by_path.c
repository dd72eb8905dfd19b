/* 6.7 and 6.8 only, e719b4d15674: a block device is opened as a bdev_handle */
/* no mentions: bdev_open_by_path bdev_handle */
#include <linux/blkdev.h>

struct block_device *probe(const char *path, void *holder);
struct block_device *probe(const char *path, void *holder)
{
	struct bdev_handle *handle = bdev_open_by_path(path, 0, holder, NULL);

	return handle->bdev;
}
