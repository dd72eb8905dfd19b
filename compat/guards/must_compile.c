/* Guard: the smallest module compiles. */
#include <linux/module.h>

int guard_must_compile(void);
int guard_must_compile(void)
{
	return THIS_MODULE ? 0 : 1;
}
