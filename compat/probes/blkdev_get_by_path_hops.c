/* 6.5 and 6.6 only, 0718afd47f70: blkdev_get_by_path() takes the holder's operations */
/* no mentions: blkdev_get_by_path */
#include <linux/blkdev.h>

struct block_device *probe(const char *path, void *holder);
struct block_device *probe(const char *path, void *holder)
{
	return blkdev_get_by_path(path, 0, holder, NULL);
}
