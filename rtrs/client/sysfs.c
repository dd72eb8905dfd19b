// SPDX-License-Identifier: GPL-2.0
/*
 * /sys/class/rtrs-client
 *
 * A session is a device of the class.  The memory of a session belongs to its
 * device, that of a path to its kobject: both are initialised when the object
 * is allocated, added when it has something to show, removed before it is torn
 * down (which waits for readers and writers), and their release frees.
 *
 * Stores that act on a path run in the writer's context and block; they hold no
 * lock that the removal of the directory is waited for under.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/kstrtox.h>
#include <linux/slab.h>
#include <linux/string.h>
#include <linux/sysfs.h>

#include "compat/core.h"
#include "client.h"

#define MAX_RECONNECTS	9999

struct class *client_class;

static ssize_t max_reconnect_attempts_show(struct device *dev,
					   struct device_attribute *attr,
					   char *buf)
{
	return sysfs_emit(buf, "%d\n",
			  READ_ONCE(to_client(dev)->max_reconnects));
}

static ssize_t max_reconnect_attempts_store(struct device *dev,
					    struct device_attribute *attr,
					    const char *buf, size_t count)
{
	int value, err;

	err = kstrtoint(buf, 10, &value);
	if (err)
		return err;
	if (value < -1 || value > MAX_RECONNECTS) {
		pr_err("session %s: max_reconnect_attempts %d is out of range, -1 to %d are possible\n",
		       to_client(dev)->name, value, MAX_RECONNECTS);
		return -EINVAL;
	}
	WRITE_ONCE(to_client(dev)->max_reconnects, value);
	return count;
}
static DEVICE_ATTR_RW(max_reconnect_attempts);

static struct attribute *client_session_attrs[] = {
	&dev_attr_max_reconnect_attempts.attr,
	NULL,
};

static const struct attribute_group client_session_group = {
	.attrs = client_session_attrs,
};

const struct attribute_group *client_session_groups[] = {
	&client_session_group,
	NULL,
};

/*
 * Paths
 */

static struct client_path *to_path(struct kobject *kobj)
{
	return container_of(kobj, struct client_path, kobj);
}

static ssize_t hca_name_show(struct kobject *kobj, struct kobj_attribute *attr,
			     char *buf)
{
	struct client_path *path = to_path(kobj);
	ssize_t len;

	spin_lock_irq(&path->lock);
	len = sysfs_emit(buf, "%s\n", path->hca_name);
	spin_unlock_irq(&path->lock);
	return len;
}

static ssize_t hca_port_show(struct kobject *kobj, struct kobj_attribute *attr,
			     char *buf)
{
	return sysfs_emit(buf, "%u\n", READ_ONCE(to_path(kobj)->hca_port));
}

static ssize_t emit_addr(struct client_path *path,
			 const struct sockaddr_storage *ss, char *buf)
{
	char str[RTRS_ADDR_STRLEN];

	spin_lock_irq(&path->lock);
	rtrs_addr_format(ss, str, sizeof(str));
	spin_unlock_irq(&path->lock);
	return sysfs_emit(buf, "%s\n", str);
}

static ssize_t src_addr_show(struct kobject *kobj, struct kobj_attribute *attr,
			     char *buf)
{
	struct client_path *path = to_path(kobj);

	return emit_addr(path, &path->addr.src, buf);
}

static ssize_t dst_addr_show(struct kobject *kobj, struct kobj_attribute *attr,
			     char *buf)
{
	struct client_path *path = to_path(kobj);

	return emit_addr(path, &path->addr.dst, buf);
}

static ssize_t state_show(struct kobject *kobj, struct kobj_attribute *attr,
			  char *buf)
{
	bool up = client_path_get_state(to_path(kobj)) == CLIENT_CONNECTED;

	return sysfs_emit(buf, "%s\n", up ? "connected" : "disconnected");
}

static ssize_t hint(struct kobj_attribute *attr, char *buf)
{
	return sysfs_emit(buf, "Usage: echo 1 > %s\n", attr->attr.name);
}

static int check_one(struct client_path *path, struct kobj_attribute *attr,
		     const char *buf)
{
	if (sysfs_streq(buf, "1"))
		return 0;
	path_log(err, path, "%s accepts nothing but 1", attr->attr.name);
	return -EINVAL;
}

static ssize_t disconnect_show(struct kobject *kobj,
			       struct kobj_attribute *attr, char *buf)
{
	return hint(attr, buf);
}

static ssize_t disconnect_store(struct kobject *kobj,
				struct kobj_attribute *attr,
				const char *buf, size_t count)
{
	struct client_path *path = to_path(kobj);
	int err = check_one(path, attr, buf);

	if (err)
		return err;
	path_log(info, path, "disconnected by the administrator");
	client_path_close(path);
	return count;
}

static ssize_t reconnect_show(struct kobject *kobj,
			      struct kobj_attribute *attr, char *buf)
{
	return hint(attr, buf);
}

static ssize_t reconnect_store(struct kobject *kobj,
			       struct kobj_attribute *attr,
			       const char *buf, size_t count)
{
	struct client_path *path = to_path(kobj);
	int err = check_one(path, attr, buf);

	if (!err)
		err = client_path_reconnect(path);
	return err ?: count;
}

static struct kobj_attribute attr_hca_name = __ATTR_RO(hca_name);
static struct kobj_attribute attr_hca_port = __ATTR_RO(hca_port);
static struct kobj_attribute attr_src_addr = __ATTR_RO(src_addr);
static struct kobj_attribute attr_dst_addr = __ATTR_RO(dst_addr);
static struct kobj_attribute attr_state = __ATTR_RO(state);
static struct kobj_attribute attr_disconnect = __ATTR_RW(disconnect);
static struct kobj_attribute attr_reconnect = __ATTR_RW(reconnect);

static struct attribute *client_path_attrs[] = {
	&attr_hca_name.attr,
	&attr_hca_port.attr,
	&attr_src_addr.attr,
	&attr_dst_addr.attr,
	&attr_state.attr,
	&attr_disconnect.attr,
	&attr_reconnect.attr,
	NULL,
};
ATTRIBUTE_GROUPS(client_path);

static void path_release(struct kobject *kobj)
{
	kfree(to_path(kobj));
}

static const struct kobj_type client_path_type = {
	.release	= path_release,
	.sysfs_ops	= &kobj_sysfs_ops,
	.default_groups	= client_path_groups,
};

/**
 * client_path_kobj_init() - from here on the kobject owns the path's memory
 * @path:	just allocated
 */
void client_path_kobj_init(struct client_path *path)
{
	kobject_init(&path->kobj, &client_path_type);
}

/**
 * client_path_sysfs_add() - show a path
 * @path:	has connected once, so that its source is known
 *
 * Context: process context, sleeps.
 * Return: 0 or -ENOMEM.
 */
int client_path_sysfs_add(struct client_path *path)
{
	char name[RTRS_PATH_STRLEN];
	int err;

	if (path->in_sysfs)
		return 0;
	rtrs_addr_format_path(&path->addr.src, &path->addr.dst, name,
			      sizeof(name));
	err = kobject_add(&path->kobj, path->clt->paths_kobj, "%s", name);
	if (err) {
		path_log(err, path, "no directory in sysfs (%d)", err);
		return err;
	}
	path->in_sysfs = true;
	return 0;
}

/**
 * client_path_sysfs_del() - hide a path; waits for readers and writers
 * @path:	the path; may never have been shown
 *
 * Context: process context, sleeps; not from one of the path's stores.
 */
void client_path_sysfs_del(struct client_path *path)
{
	if (path->in_sysfs)
		kobject_del(&path->kobj);
	path->in_sysfs = false;
}

/**
 * client_sysfs_init() - create the class
 *
 * Context: module load.
 * Return: 0 or an errno.
 */
int client_sysfs_init(void)
{
	client_class = compat_class_create("rtrs-client");
	return PTR_ERR_OR_ZERO(client_class);
}

/**
 * client_sysfs_exit() - destroy the class; no session is left
 *
 * Context: module unload.
 */
void client_sysfs_exit(void)
{
	class_destroy(client_class);
}
