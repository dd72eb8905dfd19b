/* 6.11, 1122c0c1cc71: write cache and FUA are features of the queue's limits */
/* no mentions: features BLK_FEAT_WRITE_CACHE BLK_FEAT_FUA */
#include <linux/blkdev.h>

void probe(struct queue_limits *lim);
void probe(struct queue_limits *lim)
{
	lim->features = BLK_FEAT_WRITE_CACHE | BLK_FEAT_FUA;
}
