/* 5.18, 49add4966d79: bio_init() takes the block device and the operation */
/* no mentions: bio_init */
#include <linux/bio.h>

void probe(struct bio *bio, struct block_device *bdev);
void probe(struct bio *bio, struct block_device *bdev)
{
	bio_init(bio, bdev, NULL, 0, REQ_OP_READ);
}
