/* 6.16, 41cb08555c41: from_timer() became timer_container_of() */
/* no mentions: timer_container_of */
#include <linux/timer.h>

struct probe {
	struct timer_list timer;
};

struct probe *probe(struct timer_list *t);
struct probe *probe(struct timer_list *t)
{
	struct probe *p = timer_container_of(p, t, timer);

	return p;
}
