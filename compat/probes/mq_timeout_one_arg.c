/* 6.0, 9bdb4833dd39: ->timeout() is not told whether the tag is reserved */
/* no mentions: timeout blk_eh_timer_return */
#include <linux/blk-mq.h>

static enum blk_eh_timer_return probe_timeout(struct request *rq)
{
	return BLK_EH_DONE;
}

extern const struct blk_mq_ops probe;
const struct blk_mq_ops probe = {
	.timeout = probe_timeout,
};
