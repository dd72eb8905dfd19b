/* 6.0, 2dd6532e9591: what iterates over busy tags is not told whether one is reserved */
/* no mentions: blk_mq_tagset_busy_iter busy_tag_iter_fn */
#include <linux/blk-mq.h>

static bool probe_iter(struct request *rq, void *data)
{
	return true;
}

void probe(struct blk_mq_tag_set *set);
void probe(struct blk_mq_tag_set *set)
{
	blk_mq_tagset_busy_iter(set, probe_iter, NULL);
}
