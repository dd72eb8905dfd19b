/* 5.14, b461dfc49eb6: a disk is allocated with its queue */
/* no mentions: blk_mq_alloc_disk */
#include <linux/blk-mq.h>

/* A macro whose number of arguments has changed since */
#ifndef blk_mq_alloc_disk
int probe = sizeof(&blk_mq_alloc_disk);
#endif
