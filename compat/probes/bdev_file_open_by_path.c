/* 6.9, f3a608827d1f: a block device is opened as a file */
/* no mentions: bdev_file_open_by_path file_bdev */
#include <linux/blkdev.h>

struct block_device *probe(const char *path, void *holder);
struct block_device *probe(const char *path, void *holder)
{
	return file_bdev(bdev_file_open_by_path(path, 0, holder, NULL));
}
