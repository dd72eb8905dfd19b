/* 6.17, 128ea9f6ccfb: system_wq and system_unbound_wq became system_percpu_wq and system_dfl_wq */
/* no mentions: system_percpu_wq system_dfl_wq */
#include <linux/workqueue.h>

bool probe(struct work_struct *work);
bool probe(struct work_struct *work)
{
	return queue_work(system_percpu_wq, work) || queue_work(system_dfl_wq, work);
}
