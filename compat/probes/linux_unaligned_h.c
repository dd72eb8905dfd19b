/* 6.12, 5f60d5f6bbc1: asm/unaligned.h became linux/unaligned.h */
/* no mentions: linux/unaligned.h */
#include <linux/unaligned.h>

u32 probe(const void *p);
u32 probe(const void *p)
{
	return get_unaligned_le32(p);
}
