/* 5.16, 5a72e899ceb4: ->poll() takes a batch of completions */
/* no mentions: io_comp_batch blk_mq_hw_ctx */
#include <linux/blk-mq.h>

struct io_comp_batch;
static int probe_poll(struct blk_mq_hw_ctx *hctx, struct io_comp_batch *iob)
{
	return 0;
}

extern const struct blk_mq_ops probe;
const struct blk_mq_ops probe = {
	.poll = probe_poll,
};
