/* 7.3, commit not known: kernel threads do not see the file system of user space unless they ask */
/* no mentions: scoped_with_init_fs */
/* exported: userspace_init_fs */
#include <linux/fs_struct.h>

void probe(void);
void probe(void)
{
	scoped_with_init_fs()
		current_umask();
}
