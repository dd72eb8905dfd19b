/* 6.1, a4e1d0b76e7b: ->map_queues() returns nothing */
/* no mentions: map_queues int */
#include <linux/blk-mq.h>

static void probe_map_queues(struct blk_mq_tag_set *set)
{
}

extern const struct blk_mq_ops probe;
const struct blk_mq_ops probe = {
	.map_queues = probe_map_queues,
};
