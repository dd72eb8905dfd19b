/* 5.15, 90b7198001f2: a tag set can ask for no scheduler, unless told otherwise */
/* no mentions: BLK_MQ_F_NO_SCHED_BY_DEFAULT */
#include <linux/blk-mq.h>

int probe(void);
int probe(void)
{
	return BLK_MQ_F_NO_SCHED_BY_DEFAULT;
}
