/* 6.0, 342a72a33407: blk_opf_t */
/* no mentions: blk_opf_t */
#include <linux/blk_types.h>

blk_opf_t probe(void);
blk_opf_t probe(void)
{
	return REQ_OP_READ;
}
