// SPDX-License-Identifier: GPL-2.0
/*
 * /sys/class/rtrs-server/SESSION/paths/CLIENT@SERVER/
 *
 * A session's directory comes with its first path that gets CONNECTED and goes
 * with the last of them, both under session.lock; a path's comes when INFO_REQ
 * is accepted and goes in the close work when no operation is left.  The close
 * work waits until nobody refers to either, so their memory needs no reference
 * counting of its own, and none of our code runs for them after the module's
 * last path is gone.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/mm.h>
#include <linux/module.h>
#include <linux/slab.h>
#include <linux/sysfs.h>
#include <compat/core.h>

#include "server.h"

static struct class *server_class;

static struct server_path *to_path(struct kobject *kobj)
{
	return container_of(kobj, struct server_path, kobj);
}

static ssize_t hca_name_show(struct kobject *kobj, struct kobj_attribute *attr,
			     char *page)
{
	return sysfs_emit(page, "%s\n",
			  dev_name(&to_path(kobj)->sdev->dev->dev));
}

static ssize_t hca_port_show(struct kobject *kobj, struct kobj_attribute *attr,
			     char *page)
{
	return sysfs_emit(page, "%u\n", to_path(kobj)->port_num);
}

static ssize_t show_addr(const struct sockaddr_storage *addr, char *page)
{
	char text[RTRS_ADDR_STRLEN];

	rtrs_addr_format(addr, text, sizeof(text));
	return sysfs_emit(page, "%s\n", text);
}

static ssize_t src_addr_show(struct kobject *kobj, struct kobj_attribute *attr,
			     char *page)
{
	return show_addr(&to_path(kobj)->client, page);
}

static ssize_t dst_addr_show(struct kobject *kobj, struct kobj_attribute *attr,
			     char *page)
{
	return show_addr(&to_path(kobj)->server, page);
}

static ssize_t disconnect_show(struct kobject *kobj,
			       struct kobj_attribute *attr, char *page)
{
	return sysfs_emit(page, "Usage: echo 1 > %s\n", attr->attr.name);
}

static ssize_t disconnect_store(struct kobject *kobj,
				struct kobj_attribute *attr, const char *buf,
				size_t count)
{
	struct server_path *path = to_path(kobj);

	if (!sysfs_streq(buf, "1"))
		return -EINVAL;
	/* Without this file's protection path and module may go meanwhile. */
	if (!try_module_get(THIS_MODULE))
		return -ENODEV;
	server_path_get(path);
	if (sysfs_remove_file_self(kobj, &attr->attr))
		server_path_close(path, "disconnect was written");
	server_path_put(path);
	module_put(THIS_MODULE);
	return count;
}

static ssize_t rdma_show(struct kobject *kobj, struct kobj_attribute *attr,
			 char *page)
{
	struct server_path *path = to_path(kobj);
	struct server_stats sum = {};
	unsigned int cpu, dir;

	for_each_possible_cpu(cpu) {
		const struct server_stats *s = per_cpu_ptr(path->stats, cpu);

		for (dir = RTRS_DIR_READ; dir <= RTRS_DIR_WRITE; dir++) {
			sum.ops[dir] += READ_ONCE(s->ops[dir]);
			sum.bytes[dir] += READ_ONCE(s->bytes[dir]);
		}
	}
	return sysfs_emit(page, "%llu %llu %llu %llu\n",
			  sum.ops[RTRS_DIR_READ], sum.bytes[RTRS_DIR_READ],
			  sum.ops[RTRS_DIR_WRITE], sum.bytes[RTRS_DIR_WRITE]);
}

static ssize_t rdma_store(struct kobject *kobj, struct kobj_attribute *attr,
			  const char *buf, size_t count)
{
	struct server_path *path = to_path(kobj);
	unsigned int cpu;

	if (!sysfs_streq(buf, "1"))
		return -EINVAL;
	for_each_possible_cpu(cpu)
		memset(per_cpu_ptr(path->stats, cpu), 0, sizeof(*path->stats));
	return count;
}

static struct kobj_attribute hca_name_attr = __ATTR_RO(hca_name);
static struct kobj_attribute hca_port_attr = __ATTR_RO(hca_port);
static struct kobj_attribute src_addr_attr = __ATTR_RO(src_addr);
static struct kobj_attribute dst_addr_attr = __ATTR_RO(dst_addr);
static struct kobj_attribute disconnect_attr = __ATTR_RW(disconnect);
static struct kobj_attribute rdma_attr = __ATTR_RW(rdma);

static struct attribute *path_attrs[] = {
	&hca_name_attr.attr,
	&hca_port_attr.attr,
	&src_addr_attr.attr,
	&dst_addr_attr.attr,
	&disconnect_attr.attr,
	NULL
};

static const struct attribute_group path_group = {
	.attrs	= path_attrs,
};

static struct attribute *stats_attrs[] = {
	&rdma_attr.attr,
	NULL
};

static const struct attribute_group stats_group = {
	.name	= "stats",
	.attrs	= stats_attrs,
};

static const struct attribute_group *path_groups[] = {
	&path_group,
	&stats_group,
	NULL
};

static void path_kobj_release(struct kobject *kobj)
{
	complete(&to_path(kobj)->kobj_released);
}

static const struct kobj_type path_ktype = {
	.sysfs_ops	= &kobj_sysfs_ops,
	.release	= path_kobj_release,
	.default_groups	= path_groups,
};

/*
 * The session's directory, under the session's lock
 */

static void dir_release(struct device *dev)
{
	complete(&container_of(dev, struct server_dir, dev)->released);
}

static void dir_free(struct server_dir *dir)
{
	put_device(&dir->dev);
	wait_for_completion(&dir->released);
	kfree(dir);
}

static struct server_dir *dir_create(const char *name)
{
	struct server_dir *dir = kzalloc(sizeof(*dir), GFP_KERNEL);
	int err;

	if (!dir)
		return ERR_PTR(-ENOMEM);
	init_completion(&dir->released);
	device_initialize(&dir->dev);
	dir->dev.class = server_class;
	dir->dev.release = dir_release;
	err = dev_set_name(&dir->dev, "%s", name);
	if (err)
		goto free;
	/* The announcement waits for the directory to be complete. */
	dev_set_uevent_suppress(&dir->dev, true);
	err = device_add(&dir->dev);
	if (err)
		goto free;
	dir->paths = kobject_create_and_add("paths", &dir->dev.kobj);
	if (!dir->paths) {
		err = -ENOMEM;
		goto del;
	}
	dev_set_uevent_suppress(&dir->dev, false);
	kobject_uevent(&dir->dev.kobj, KOBJ_ADD);
	return dir;

del:
	device_del(&dir->dev);
free:
	dir_free(dir);
	return ERR_PTR(err);
}

static void dir_put(struct rtrs_server_session *sess)
{
	struct server_dir *dir = sess->dir;

	if (--dir->users)
		return;
	sess->dir = NULL;
	kobject_del(dir->paths);
	kobject_put(dir->paths);
	device_del(&dir->dev);
	dir_free(dir);
}

static int dir_get(struct rtrs_server_session *sess)
{
	struct server_dir *dir;

	if (!sess->dir) {
		dir = dir_create(sess->name);
		if (IS_ERR(dir))
			return PTR_ERR(dir);
		sess->dir = dir;
	}
	sess->dir->users++;
	return 0;
}

/**
 * server_sysfs_add() - make a path visible
 * @path:	about to be CONNECTED, the session has its name
 *
 * Context: process context, sleeps.
 * Return: 0 or a negative errno; nothing is left behind then.
 */
int server_sysfs_add(struct server_path *path)
{
	struct rtrs_server_session *sess = path->sess;
	int err;

	mutex_lock(&sess->lock);
	err = dir_get(sess);
	if (err)
		goto unlock;
	err = compat_kobject_init_and_add(&path->kobj, &path_ktype,
					  sess->dir->paths, "%s", path->label);
	if (err) {
		kobject_put(&path->kobj);
		wait_for_completion(&path->kobj_released);
		dir_put(sess);
		goto unlock;
	}
	path->has_dir = true;
unlock:
	mutex_unlock(&sess->lock);
	if (err)
		path_err(path, "sysfs: %d\n", err);
	return err;
}

/**
 * server_sysfs_remove() - make a path invisible
 * @path:	the path; may never have been visible
 *
 * Context: process context, sleeps; not from an attribute of the path.
 */
void server_sysfs_remove(struct server_path *path)
{
	struct rtrs_server_session *sess = path->sess;

	if (!path->has_dir)
		return;
	path->has_dir = false;
	mutex_lock(&sess->lock);
	kobject_del(&path->kobj);
	kobject_put(&path->kobj);
	wait_for_completion(&path->kobj_released);
	dir_put(sess);
	mutex_unlock(&sess->lock);
}

int server_sysfs_init(void)
{
	server_class = compat_class_create("rtrs-server");
	return PTR_ERR_OR_ZERO(server_class);
}

void server_sysfs_exit(void)
{
	class_destroy(server_class);
}
