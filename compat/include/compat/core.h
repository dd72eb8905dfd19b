/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Adapters for the driver core and work queues: the newest upstream
 * names on older kernels. Where an old function of the same name has another
 * signature, the adapter's own name begins with compat_.
 */
#ifndef COMPAT_CORE_H
#define COMPAT_CORE_H

#include <linux/device/class.h>
#include <linux/kobject.h>
#include <linux/module.h>
#include <linux/overflow.h>
#include <linux/random.h>
#include <linux/uio.h>
#include <linux/workqueue.h>

/*
 * class_create(name); before 6.4 it also wanted the module. A macro, because
 * the old one keeps a lock class per place it is used at.
 */
#if HAVE_CLASS_CREATE_ONE_ARG
#define compat_class_create(name) class_create(name)
#else
#define compat_class_create(name) class_create(THIS_MODULE, name)
#endif

/* kobject_init(kobj, type) and so on; before 5.18 the type was not const. */
#if HAVE_KOBJECT_INIT_CONST
#define compat_kobject_init(kobj, type) kobject_init(kobj, type)
#define compat_kobject_init_and_add(kobj, type, ...) \
	kobject_init_and_add(kobj, type, __VA_ARGS__)
#else
#define compat_kobject_init(kobj, type) \
	kobject_init(kobj, (void *)(type))
#define compat_kobject_init_and_add(kobj, type, ...) \
	kobject_init_and_add(kobj, (void *)(type), __VA_ARGS__)
#endif

#if !HAVE_GET_RANDOM_U32_BELOW
#define get_random_u32_below(ceiling) prandom_u32_max(ceiling)
#endif

/* A macro is its own probe. */
#ifndef struct_size_t
#define struct_size_t(type, member, count) \
	struct_size((type *)NULL, member, count)
#endif

/* Likewise; the directions of an iterator had other names before 6.2. */
#ifndef ITER_DEST
#define ITER_SOURCE	WRITE
#define ITER_DEST	READ
#endif

#if !HAVE_SYSTEM_DFL_WQ
#define system_percpu_wq system_wq
#define system_dfl_wq system_unbound_wq
#endif

#endif /* COMPAT_CORE_H */
