/* Guard: a function that no kernel declares is an error. */
#include <linux/module.h>

int guard_must_fail(void);
int guard_must_fail(void)
{
	return guard_function_that_no_kernel_has();
}
