/* 6.16, 75618ac6e9f4: blk_rq_map_sg() lost its queue argument */
/* no mentions: blk_rq_map_sg */
#include <linux/blk-mq.h>

int probe(struct request *rq, struct scatterlist *sg);
int probe(struct request *rq, struct scatterlist *sg)
{
	return blk_rq_map_sg(rq, sg);
}
