// SPDX-License-Identifier: GPL-2.0
/*
 * /sys/class/rtrs-client/.../paths/: the attributes of a path.
 *
 * The memory of a path belongs to its kobject, which is initialised when the path
 * is allocated; its release frees.  The directory of a path that was given when
 * the session was opened exists at once, that of an added path when it has
 * connected.  It is removed before the path is (which waits for readers and
 * writers), and renamed once if the source was not given.
 *
 * Stores that act on a path run in the writer's context and block; they hold no
 * lock that the removal of the directory is waited for under.  remove_path, which
 * removes its own directory, first takes itself out of it: who succeeds in that
 * is the one who removes the path.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/module.h>
#include <linux/slab.h>
#include <linux/string.h>
#include <linux/sysfs.h>

#include "compat/core.h"
#include "client.h"

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

/* A path's source; the address of all zeros if it is not known yet */
static struct sockaddr_storage known_src(const struct client_path *path)
{
	struct sockaddr_storage src = path->addr.src;

	if (src.ss_family == AF_UNSPEC)
		src.ss_family = path->addr.dst.ss_family;
	return src;
}

/**
 * client_path_dirname() - the name of a path's directory
 * @path:	the path
 * @buf:	destination, RTRS_PATH_STRLEN bytes hold every name
 * @size:	room in @buf, bytes
 *
 * Context: any; under the path's lock unless nobody else has the path.
 * Return: characters written.
 */
int client_path_dirname(const struct client_path *path, char *buf, size_t size)
{
	struct sockaddr_storage src = known_src(path);

	return rtrs_addr_format_path(&src, &path->addr.dst, buf, size);
}

static ssize_t src_addr_show(struct kobject *kobj, struct kobj_attribute *attr,
			     char *buf)
{
	struct client_path *path = to_path(kobj);
	struct sockaddr_storage src;
	char str[RTRS_ADDR_STRLEN];

	spin_lock_irq(&path->lock);
	src = known_src(path);
	spin_unlock_irq(&path->lock);
	rtrs_addr_format(&src, str, sizeof(str));
	return sysfs_emit(buf, "%s\n", str);
}

static ssize_t dst_addr_show(struct kobject *kobj, struct kobj_attribute *attr,
			     char *buf)
{
	char str[RTRS_ADDR_STRLEN];

	/* It never changes. */
	rtrs_addr_format(&to_path(kobj)->addr.dst, str, sizeof(str));
	return sysfs_emit(buf, "%s\n", str);
}

static ssize_t state_show(struct kobject *kobj, struct kobj_attribute *attr,
			  char *buf)
{
	bool up = client_path_get_state(to_path(kobj)) == CLIENT_CONNECTED;

	return sysfs_emit(buf, "%s\n", up ? "connected" : "disconnected");
}

static ssize_t cur_latency_show(struct kobject *kobj,
				struct kobj_attribute *attr, char *buf)
{
	return sysfs_emit(buf, "%lld ns\n", READ_ONCE(to_path(kobj)->latency));
}

static ssize_t hint_show(struct kobject *kobj, struct kobj_attribute *attr,
			 char *buf)
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

static ssize_t remove_path_store(struct kobject *kobj,
				 struct kobj_attribute *attr,
				 const char *buf, size_t count)
{
	struct client_path *path = to_path(kobj);
	struct rtrs_client *clt = path->clt;
	int err = check_one(path, attr, buf) ?: client_paths_begin(clt);

	if (err)
		return err;
	/* Without its file nothing else keeps the module while this runs. */
	__module_get(THIS_MODULE);
	/* False: somebody else is removing it. */
	if (sysfs_remove_file_self(kobj, &attr->attr)) {
		path_log(info, path, "removed by the administrator");
		client_paths_remove(path);
	}
	client_paths_end(clt);
	module_put(THIS_MODULE);
	return count;
}

static struct kobj_attribute attr_hca_name = __ATTR_RO(hca_name);
static struct kobj_attribute attr_hca_port = __ATTR_RO(hca_port);
static struct kobj_attribute attr_src_addr = __ATTR_RO(src_addr);
static struct kobj_attribute attr_dst_addr = __ATTR_RO(dst_addr);
static struct kobj_attribute attr_state = __ATTR_RO(state);
static struct kobj_attribute attr_disconnect =
	__ATTR(disconnect, 0644, hint_show, disconnect_store);
static struct kobj_attribute attr_reconnect =
	__ATTR(reconnect, 0644, hint_show, reconnect_store);
static struct kobj_attribute attr_remove_path =
	__ATTR(remove_path, 0644, hint_show, remove_path_store);
static struct kobj_attribute attr_cur_latency = __ATTR_RO(cur_latency);

static struct attribute *client_path_attrs[] = {
	&attr_hca_name.attr,
	&attr_hca_port.attr,
	&attr_src_addr.attr,
	&attr_dst_addr.attr,
	&attr_state.attr,
	&attr_disconnect.attr,
	&attr_reconnect.attr,
	&attr_remove_path.attr,
	&attr_cur_latency.attr,
	NULL,
};

static const struct attribute_group client_path_group = {
	.attrs = client_path_attrs,
};

static const struct attribute_group *client_path_groups[] = {
	&client_path_group,
	&client_stats_group,
	NULL,
};

static void path_release(struct kobject *kobj)
{
	kfree(to_path(kobj));
	client_object_put();
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
	client_object_get();
	compat_kobject_init(&path->kobj, &client_path_type);
}

/**
 * client_path_sysfs_add() - show a path
 * @path:	the path, in its session's list
 *
 * Context: process context, sleeps; under paths_lock.
 * Return: 0, also if it was shown before, or -ENOMEM.
 */
int client_path_sysfs_add(struct client_path *path)
{
	int err;

	lockdep_assert_held(&path->clt->paths_lock);

	if (path->in_sysfs)
		return 0;
	err = kobject_add(&path->kobj, path->clt->paths_kobj, "%s",
			  client_path_name(path));
	if (err) {
		path_log(err, path, "no directory in sysfs (%d)", err);
		return err;
	}
	path->in_sysfs = true;
	return 0;
}

/**
 * client_path_sysfs_rename() - the path's source has become known
 * @path:	the path
 * @name:	its new name
 *
 * Context: process context, sleeps; under paths_lock.
 * Return: 0 or -ENOMEM.
 */
int client_path_sysfs_rename(struct client_path *path, const char *name)
{
	lockdep_assert_held(&path->clt->paths_lock);

	if (!path->in_sysfs)
		return 0;
	return kobject_rename(&path->kobj, name);
}

/**
 * client_path_sysfs_del() - hide a path; waits for readers and writers
 * @path:	DEAD; may never have been shown
 *
 * Context: process context, sleeps; not from one of the path's stores, except
 * for one that has taken its attribute away.
 */
void client_path_sysfs_del(struct client_path *path)
{
	if (path->in_sysfs)
		kobject_del(&path->kobj);
	path->in_sysfs = false;
}
