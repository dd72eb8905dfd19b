/* 5.18, ee6d3dd4ed48: the type of a kobject is const */
/* no mentions: kobj_type */
#include <linux/kobject.h>

extern void (*probe)(struct kobject *kobj, const struct kobj_type *type);
void (*probe)(struct kobject *kobj, const struct kobj_type *type) = kobject_init;
