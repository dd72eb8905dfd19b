/* until 5.19, 6f8191fdf41d: a disk's queue is shut down by the driver */
/* no mentions: blk_cleanup_queue */
#include <linux/blkdev.h>

void probe(struct request_queue *q);
void probe(struct request_queue *q)
{
	blk_cleanup_queue(q);
}
