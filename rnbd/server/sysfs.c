// SPDX-License-Identifier: GPL-2.0
/*
 * /sys/class/rnbd-server/ctl/devices/<bdev>/sessions/<session>/
 *
 * The device "ctl" and its directory "devices" live as long as the module;
 * "ctl" is announced when "devices" is there. The nodes below are kobjects of
 * exports and openings, added and deleted by export.c; here are their
 * attributes. Show functions read what never changes while the node exists.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/device.h>
#include <linux/module.h>
#include <linux/slab.h>

#include "compat/core.h"
#include "rnbd/server/server.h"

static struct class *rnbd_class;
static struct device *ctl;
static struct kobject *devices;

static struct rnbd_opening *to_opening(struct kobject *kobj)
{
	return container_of(kobj, struct rnbd_opening, kobj);
}

static ssize_t read_only_show(struct kobject *kobj, struct kobj_attribute *attr,
			      char *page)
{
	return sysfs_emit(page, "%d\n",
			  to_opening(kobj)->mode == RNBD_ACCESS_RO);
}

static ssize_t access_mode_show(struct kobject *kobj,
				struct kobj_attribute *attr, char *page)
{
	return sysfs_emit(page, "%s\n",
			  rnbd_access_name(to_opening(kobj)->mode));
}

static ssize_t mapping_path_show(struct kobject *kobj,
				 struct kobj_attribute *attr, char *page)
{
	return sysfs_emit(page, "%s\n", to_opening(kobj)->name);
}

static ssize_t force_close_show(struct kobject *kobj,
				struct kobj_attribute *attr, char *page)
{
	return sysfs_emit(page, "Usage: echo 1 > %s\n", attr->attr.name);
}

/*
 * The node removes itself: it lets go of its own file before anybody waits for
 * it. From then on nothing keeps the module, hence the reference.
 */
static int force_close(struct rnbd_opening *o, struct kobj_attribute *attr)
{
	if (!rnbd_opening_claim(o, true))
		return -EBUSY;
	pr_info("%s: force-closing %s\n", o->session->name, o->name);
	sysfs_remove_file_self(&o->kobj, &attr->attr);
	rnbd_opening_close(o, NULL);
	if (wait_for_completion_interruptible(&o->closed))
		return -EINTR;
	return 0;
}

static ssize_t force_close_store(struct kobject *kobj,
				 struct kobj_attribute *attr, const char *buf,
				 size_t count)
{
	int err;

	if (!sysfs_streq(buf, "1")) {
		pr_err_ratelimited("%s: write 1 to close the device\n",
				   attr->attr.name);
		return -EINVAL;
	}
	if (!try_module_get(THIS_MODULE))
		return -EBUSY;
	kobject_get(kobj);
	err = force_close(to_opening(kobj), attr);
	kobject_put(kobj);
	module_put(THIS_MODULE);
	return err ?: count;
}

static struct kobj_attribute read_only_attr = __ATTR_RO(read_only);
static struct kobj_attribute access_mode_attr = __ATTR_RO(access_mode);
static struct kobj_attribute mapping_path_attr = __ATTR_RO(mapping_path);
static struct kobj_attribute force_close_attr = __ATTR_RW(force_close);

static struct attribute *opening_attrs[] = {
	&read_only_attr.attr,
	&access_mode_attr.attr,
	&mapping_path_attr.attr,
	&force_close_attr.attr,
	NULL
};
ATTRIBUTE_GROUPS(opening);

static void opening_release(struct kobject *kobj)
{
	rnbd_opening_free(to_opening(kobj));
}

const struct kobj_type rnbd_opening_ktype = {
	.sysfs_ops	= &kobj_sysfs_ops,
	.default_groups	= opening_groups,
	.release	= opening_release,
};

static void export_release(struct kobject *kobj)
{
	rnbd_export_free(container_of(kobj, struct rnbd_export, kobj));
}

const struct kobj_type rnbd_export_ktype = {
	.sysfs_ops	= &kobj_sysfs_ops,
	.release	= export_release,
};

/**
 * rnbd_sysfs_devices() - where exports are added
 *
 * Return: the directory "devices".
 */
struct kobject *rnbd_sysfs_devices(void)
{
	return devices;
}

static void ctl_release(struct device *dev)
{
	kfree(dev);
	rnbd_object_put();
}

static int create_ctl(void)
{
	int err;

	ctl = kzalloc(sizeof(*ctl), GFP_KERNEL);
	if (!ctl)
		return -ENOMEM;
	rnbd_object_get();
	device_initialize(ctl);
	ctl->class = rnbd_class;
	ctl->release = ctl_release;
	dev_set_uevent_suppress(ctl, true);
	err = dev_set_name(ctl, "ctl");
	if (!err)
		err = device_add(ctl);
	if (err)
		goto put;
	devices = kobject_create_and_add("devices", &ctl->kobj);
	if (!devices) {
		err = -ENOMEM;
		goto del;
	}
	dev_set_uevent_suppress(ctl, false);
	kobject_uevent(&ctl->kobj, KOBJ_ADD);
	return 0;

del:
	device_del(ctl);
put:
	put_device(ctl);
	return err;
}

/**
 * rnbd_sysfs_create() - create what exists as long as the module is loaded
 *
 * Return: 0 or a negative errno.
 */
int rnbd_sysfs_create(void)
{
	int err;

	rnbd_class = compat_class_create("rnbd-server");
	if (IS_ERR(rnbd_class))
		return PTR_ERR(rnbd_class);
	err = create_ctl();
	if (err)
		class_destroy(rnbd_class);
	return err;
}

/**
 * rnbd_sysfs_destroy() - undo rnbd_sysfs_create()
 *
 * No export is left.
 */
void rnbd_sysfs_destroy(void)
{
	kobject_del(devices);
	kobject_put(devices);
	device_unregister(ctl);
	class_destroy(rnbd_class);
}
