/* 5.16, 8e141f9eb803: a removed disk is marked GD_DEAD */
/* no mentions: GD_DEAD */
#include <linux/blkdev.h>

int probe(void);
int probe(void)
{
	return GD_DEAD;
}
