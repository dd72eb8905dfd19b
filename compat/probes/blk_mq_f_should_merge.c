/* until 6.14, 9377b95cda73: merging had to be asked for with BLK_MQ_F_SHOULD_MERGE */
/* no mentions: BLK_MQ_F_SHOULD_MERGE */
#include <linux/blk-mq.h>

unsigned int probe(void);
unsigned int probe(void)
{
	return BLK_MQ_F_SHOULD_MERGE;
}
