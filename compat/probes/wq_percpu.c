/* 6.17, 930c2ea566af: WQ_PERCPU says what the absence of WQ_UNBOUND meant */
/* no mentions: WQ_PERCPU */
#include <linux/workqueue.h>

struct workqueue_struct *probe(void);
struct workqueue_struct *probe(void)
{
	return alloc_workqueue("probe", WQ_PERCPU, 0);
}
