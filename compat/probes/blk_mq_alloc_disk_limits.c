/* 6.9, 27e32cd23fed: blk_mq_alloc_disk() takes the queue's limits */
/* no mentions: blk_mq_alloc_disk */
#include <linux/blk-mq.h>

struct gendisk *probe(struct blk_mq_tag_set *set, struct queue_limits *lim, void *data);
struct gendisk *probe(struct blk_mq_tag_set *set, struct queue_limits *lim, void *data)
{
	return blk_mq_alloc_disk(set, lim, data);
}
