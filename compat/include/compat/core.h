/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Adapters for the driver core and work queues: the newest upstream
 * names on older kernels. Where an old function of the same name has another
 * signature, the adapter's own name begins with compat_.
 */
#ifndef COMPAT_CORE_H
#define COMPAT_CORE_H

#include <linux/device/class.h>
#include <linux/module.h>
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

#if !HAVE_SYSTEM_DFL_WQ
#define system_percpu_wq system_wq
#define system_dfl_wq system_unbound_wq
#endif

#endif /* COMPAT_CORE_H */
