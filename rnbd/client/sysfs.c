// SPDX-License-Identifier: GPL-2.0
/*
 * What scripts see: /sys/class/rnbd-client/ctl/ with map_device and devices/,
 * and the directory rnbd/ of each disk.
 *
 * ctl lives from module load to unload; at unload map_device goes first, which
 * waits for maps under way.  The rnbd directory is a group of the disk's
 * attributes, so it comes before the disk's add uevent and goes with the disk.
 * A store into it keeps the disk, and so the device and its session, alive;
 * removing the disk waits for the stores.  The one that removes the disk
 * therefore first removes its own file, and from then on owns the device
 * through the state machine instead, and the module through a reference.
 */
#include "rnbd/client/client.h"

#include <linux/device.h>
#include <linux/kernfs.h>
#include <linux/module.h>
#include <linux/sched/mm.h>
#include <linux/slab.h>
#include <linux/sysfs.h>

#include "compat/core.h"

#define RNBD_GROUP	"rnbd"

static struct class *rnbd_class;
static struct device *rnbd_ctl;
static struct kobject *rnbd_links;

/* Is it this word, with nothing but white space around it? */
static bool rnbd_is_word(const char *buf, const char *word)
{
	size_t len = strlen(word);

	buf = skip_spaces(buf);
	return !strncmp(buf, word, len) && !*skip_spaces(buf + len);
}

/*
 * The rnbd directory of a disk
 */

static struct rnbd_dev *to_rnbd_dev(struct device *d)
{
	return dev_to_disk(d)->private_data;
}

/*
 * sysfs_remove_file_self() looks the file up in a kobject's directory, but this
 * one is in the directory of a group, which has no kobject.
 */
static void rnbd_remove_self(struct rnbd_dev *dev, const struct attribute *attr)
{
	struct kobject dir = {};

	dir.sd = kernfs_find_and_get(disk_to_dev(dev->disk)->kobj.sd,
				     RNBD_GROUP);
	if (!dir.sd)
		return;
	sysfs_remove_file_self(&dir, attr);
	kernfs_put(dir.sd);
}

static ssize_t unmap_device_show(struct device *d,
				 struct device_attribute *attr, char *buf)
{
	return sysfs_emit(buf, "Usage: echo <normal|force> > %s\n",
			  attr->attr.name);
}

static ssize_t unmap_device_store(struct device *d,
				  struct device_attribute *attr,
				  const char *buf, size_t count)
{
	struct rnbd_dev *dev = to_rnbd_dev(d);
	bool force = rnbd_is_word(buf, "force");
	bool was_open;
	int err;

	if (!force && !rnbd_is_word(buf, "normal")) {
		rnbd_err(dev, "%s: neither \"normal\" nor \"force\"\n",
			 attr->attr.name);
		return -EINVAL;
	}
	if (!try_module_get(THIS_MODULE))
		return -ENODEV;
	err = rnbd_unmap_begin(dev, force, &was_open);
	if (!err) {
		rnbd_remove_self(dev, &attr->attr);
		rnbd_unmap_finish(dev, was_open);
	}
	module_put(THIS_MODULE);
	return err ?: count;
}
static DEVICE_ATTR_RW(unmap_device);

static ssize_t resize_show(struct device *d, struct device_attribute *attr,
			   char *buf)
{
	return sysfs_emit(buf, "Usage: echo <new size in 512-byte sectors> > %s\n",
			  attr->attr.name);
}

static ssize_t resize_store(struct device *d, struct device_attribute *attr,
			    const char *buf, size_t count)
{
	struct rnbd_dev *dev = to_rnbd_dev(d);
	unsigned long long sectors;
	unsigned int noio;
	int err;

	err = kstrtoull(buf, 0, &sectors);
	if (err)
		return err;
	if (sectors > LLONG_MAX >> SECTOR_SHIFT)
		return -ERANGE;
	/* See device.c. */
	noio = memalloc_noio_save();
	mutex_lock(&dev->lock);
	if (dev->state != RNBD_DEV_OPEN)
		err = -ENOENT;
	else if (!IS_ALIGNED(sectors, dev->geom.logical_block_size >> SECTOR_SHIFT))
		err = -EINVAL;
	else
		set_capacity_and_notify(dev->disk, sectors);
	mutex_unlock(&dev->lock);
	memalloc_noio_restore(noio);
	if (err == -EINVAL)
		rnbd_err(dev, "%s: %llu sectors are not whole logical blocks of %u bytes\n",
			 attr->attr.name, sectors,
			 dev->geom.logical_block_size);
	return err ?: count;
}
static DEVICE_ATTR_RW(resize);

static ssize_t remap_device_show(struct device *d,
				 struct device_attribute *attr, char *buf)
{
	return sysfs_emit(buf, "Usage: echo <1> > %s\n", attr->attr.name);
}

static ssize_t remap_device_store(struct device *d,
				  struct device_attribute *attr,
				  const char *buf, size_t count)
{
	struct rnbd_dev *dev = to_rnbd_dev(d);
	int err = -ENODEV;

	if (!rnbd_is_word(buf, "1")) {
		rnbd_err(dev, "%s: not 1\n", attr->attr.name);
		return -EINVAL;
	}
	switch (READ_ONCE(dev->state)) {
	case RNBD_DEV_INIT:
		err = -EBUSY;
		break;
	case RNBD_DEV_OPEN:
		err = -EALREADY;
		break;
	case RNBD_DEV_CLOSED:
		err = rnbd_dev_reopen(dev);
		if (err)
			rnbd_err(dev, "%s: not opened: %pe\n", attr->attr.name,
				 ERR_PTR(err));
		break;
	default:
		break;
	}
	return err ?: count;
}
static DEVICE_ATTR_RW(remap_device);

static ssize_t mapping_path_show(struct device *d,
				 struct device_attribute *attr, char *buf)
{
	return sysfs_emit(buf, "%s\n", to_rnbd_dev(d)->name);
}
static DEVICE_ATTR_RO(mapping_path);

static ssize_t state_show(struct device *d, struct device_attribute *attr,
			  char *buf)
{
	return sysfs_emit(buf, "%s\n", rnbd_dev_state_name(to_rnbd_dev(d)));
}
static DEVICE_ATTR_RO(state);

static ssize_t session_show(struct device *d, struct device_attribute *attr,
			    char *buf)
{
	return sysfs_emit(buf, "%s\n", to_rnbd_dev(d)->sess->name);
}
static DEVICE_ATTR_RO(session);

static ssize_t access_mode_show(struct device *d,
				struct device_attribute *attr, char *buf)
{
	return sysfs_emit(buf, "%s\n",
			  rnbd_access_mode_name(to_rnbd_dev(d)->mode));
}
static DEVICE_ATTR_RO(access_mode);

static ssize_t nr_poll_queues_show(struct device *d,
				   struct device_attribute *attr, char *buf)
{
	return sysfs_emit(buf, "%u\n", to_rnbd_dev(d)->nr_poll_queues);
}
static DEVICE_ATTR_RO(nr_poll_queues);

static ssize_t fast_io_fail_tmo_show(struct device *d,
				     struct device_attribute *attr, char *buf)
{
	return sysfs_emit(buf, "%u\n", READ_ONCE(to_rnbd_dev(d)->fail_tmo));
}

static ssize_t fast_io_fail_tmo_store(struct device *d,
				      struct device_attribute *attr,
				      const char *buf, size_t count)
{
	unsigned int secs;
	int err;

	err = kstrtouint(buf, 0, &secs);
	if (!err)
		err = rnbd_wait_set(to_rnbd_dev(d), secs);
	return err ?: count;
}
static DEVICE_ATTR_RW(fast_io_fail_tmo);

static struct attribute *rnbd_disk_attrs[] = {
	&dev_attr_unmap_device.attr,
	&dev_attr_resize.attr,
	&dev_attr_remap_device.attr,
	&dev_attr_mapping_path.attr,
	&dev_attr_state.attr,
	&dev_attr_session.attr,
	&dev_attr_access_mode.attr,
	&dev_attr_nr_poll_queues.attr,
	&dev_attr_fast_io_fail_tmo.attr,
	NULL
};

static const struct attribute_group rnbd_disk_group = {
	.name	= RNBD_GROUP,
	.attrs	= rnbd_disk_attrs,
};

const struct attribute_group *rnbd_disk_groups[] = {
	&rnbd_disk_group,
	NULL
};

/*
 * ctl
 */

static ssize_t map_device_show(struct device *d, struct device_attribute *attr,
			       char *buf)
{
	return sysfs_emit(buf,
		"Usage: echo \"sessname=<name of the session> device_path=<device below the server's search path> path=[<source>@]<destination> [path=...] [dest_port=<server's port>] [access_mode=<ro|rw|migration>] [nr_poll_queues=<number, -1: one per processor>] [fast_io_fail_tmo=<seconds to wait for a lost session>]\" > %s\n"
		"\n"
		"source, destination: ip:<IPv4> | ip:<IPv6> | gid:<GID>\n",
		attr->attr.name);
}

static ssize_t map_device_store(struct device *d, struct device_attribute *attr,
				const char *buf, size_t count)
{
	struct rnbd_map_options *opts;
	char *text;
	int err;

	opts = kmalloc(sizeof(*opts), GFP_KERNEL);
	text = kmemdup_nul(buf, count, GFP_KERNEL);
	if (!opts || !text) {
		err = -ENOMEM;
		goto out;
	}
	if (strlen(text) != count) {
		pr_err("%s: (text): contains a NUL character\n",
		       attr->attr.name);
		err = -EINVAL;
		goto out;
	}
	err = rnbd_options_parse(text, nr_cpu_ids, opts);
	if (err)
		pr_err("%s: %s: %s\n", attr->attr.name, opts->bad_key,
		       opts->why);
	else
		err = rnbd_map(opts);
out:
	kfree(text);
	kfree(opts);
	return err ?: count;
}
static DEVICE_ATTR_RW(map_device);

/**
 * rnbd_sysfs_link() - make the link in ctl/devices/
 * @dev:	the device; its disk is visible
 *
 * Context: process, may sleep; only the map operation.
 *
 * Return: 0, or an errno (-EEXIST: two names that differ only in '/' and '!').
 */
int rnbd_sysfs_link(struct rnbd_dev *dev)
{
	int err;

	err = sysfs_create_link_nowarn(rnbd_links,
				       &disk_to_dev(dev->disk)->kobj,
				       dev->link);
	dev->linked = !err;
	return err;
}

/**
 * rnbd_sysfs_unlink() - remove the link in ctl/devices/
 * @dev:	the device; nothing happens if rnbd_sysfs_link() failed
 *
 * Context: process, may sleep.
 */
void rnbd_sysfs_unlink(struct rnbd_dev *dev)
{
	if (dev->linked)
		sysfs_remove_link(rnbd_links, dev->link);
}

static void rnbd_ctl_release(struct device *d)
{
	kfree(d);
	rnbd_object_put();
}

static int rnbd_ctl_add(void)
{
	int err;

	rnbd_ctl = kzalloc(sizeof(*rnbd_ctl), GFP_KERNEL);
	if (!rnbd_ctl)
		return -ENOMEM;
	rnbd_object_get();
	device_initialize(rnbd_ctl);
	rnbd_ctl->class = rnbd_class;
	rnbd_ctl->release = rnbd_ctl_release;
	/* Announced when devices/ and map_device exist. */
	dev_set_uevent_suppress(rnbd_ctl, true);
	err = dev_set_name(rnbd_ctl, "ctl");
	if (err)
		goto err_put;
	err = device_add(rnbd_ctl);
	if (err)
		goto err_put;
	rnbd_links = kobject_create_and_add("devices", &rnbd_ctl->kobj);
	if (!rnbd_links) {
		err = -ENOMEM;
		goto err_del;
	}
	err = device_create_file(rnbd_ctl, &dev_attr_map_device);
	if (err)
		goto err_links;
	dev_set_uevent_suppress(rnbd_ctl, false);
	kobject_uevent(&rnbd_ctl->kobj, KOBJ_ADD);
	return 0;

err_links:
	kobject_put(rnbd_links);
err_del:
	device_del(rnbd_ctl);
err_put:
	put_device(rnbd_ctl);
	return err;
}

/**
 * rnbd_sysfs_init() - class and ctl
 *
 * Context: process, module load; maps may come from now on.
 *
 * Return: 0 or an errno.
 */
int rnbd_sysfs_init(void)
{
	int err;

	rnbd_class = compat_class_create("rnbd-client");
	if (IS_ERR(rnbd_class))
		return PTR_ERR(rnbd_class);
	err = rnbd_ctl_add();
	if (err)
		class_destroy(rnbd_class);
	return err;
}

/**
 * rnbd_sysfs_stop_mapping() - no more maps
 *
 * Waits for those under way.
 *
 * Context: process, module unload.
 */
void rnbd_sysfs_stop_mapping(void)
{
	device_remove_file(rnbd_ctl, &dev_attr_map_device);
}

/**
 * rnbd_sysfs_exit() - undo rnbd_sysfs_init()
 *
 * Context: process, module unload; no device is mapped.
 */
void rnbd_sysfs_exit(void)
{
	kobject_del(rnbd_links);
	kobject_put(rnbd_links);
	device_unregister(rnbd_ctl);
	class_destroy(rnbd_class);
}
