/* 5.18, 76792055c4c8: ->free_disk() */
/* no mentions: free_disk */
#include <linux/blkdev.h>

extern const struct block_device_operations probe;
const struct block_device_operations probe = {
	.free_disk = NULL,
};
