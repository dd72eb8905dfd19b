/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Adapters for the driver core, work queues and timers: the newest upstream
 * names on older kernels. Where an old function of the same name has another
 * signature, the adapter's own name begins with compat_.
 */
#ifndef COMPAT_CORE_H
#define COMPAT_CORE_H

#include <linux/device/class.h>
#include <linux/module.h>
#include <linux/timer.h>
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

/* What every work queue without WQ_UNBOUND was before 6.17. */
#if !HAVE_WQ_PERCPU
#define WQ_PERCPU 0
#endif

#if !HAVE_SYSTEM_DFL_WQ
#define system_percpu_wq system_wq
#define system_dfl_wq system_unbound_wq
#endif

#if !HAVE_TIMER_CONTAINER_OF
#define timer_container_of(var, timer, field) from_timer(var, timer, field)
#endif

#endif /* COMPAT_CORE_H */
