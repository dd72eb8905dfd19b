/* 6.2, 3c202d14a9d7: prandom_u32_max() became get_random_u32_below() */
/* no mentions: get_random_u32_below */
#include <linux/random.h>

u32 probe(void);
u32 probe(void)
{
	return get_random_u32_below(7);
}
