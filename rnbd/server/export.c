// SPDX-License-Identifier: GPL-2.0
/*
 * An export: one block device and everybody who has it open.
 *
 * The first opening of a device creates it, the last one to detach destroys
 * it. Identity is the kernel's block_device object, which cannot go away or be
 * reused while an opening holds it: neither another path to the same device
 * nor another device under an old name can be taken for something it is not.
 *
 * One mutex guards the list of exports, their lists of openings and their
 * writer counts, and serialises the creation and removal of their sysfs nodes.
 * It may sleep; only work queues take it. The release functions of the nodes
 * take no lock, so dropping a reference under the mutex is fine.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/mutex.h>
#include <linux/slab.h>

#include "compat/core.h"
#include "rnbd/server/server.h"

#define SESSION_TOKEN	"%SESSNAME%"

/* For the end of an opening that is in the way of a new one */
#define CLOSING_TIMEOUT	(10 * HZ)

static DEFINE_MUTEX(exports_lock);
static LIST_HEAD(exports);

/*
 * The path of a device: the search path with every token replaced by the
 * session's name, a slash, the device's name; runs of slashes become one.
 */
struct path_buf {
	char	*str;
	size_t	len;
};

static int path_add(struct path_buf *path, const char *str, size_t len)
{
	for (; len; len--, str++) {
		if (*str == '/' && path->len && path->str[path->len - 1] == '/')
			continue;
		if (path->len == PATH_MAX - 1)
			return -EINVAL;
		path->str[path->len++] = *str;
	}
	path->str[path->len] = '\0';
	return 0;
}

static int path_build(struct path_buf *path, const char *session,
		      const char *name)
{
	const char *rest = rnbd_search_path, *token;
	int err;

	if (strlen(rest) + strlen(name) >= PATH_MAX)
		return -EINVAL;
	while ((token = strstr(rest, SESSION_TOKEN))) {
		err = path_add(path, rest, token - rest);
		if (!err)
			err = path_add(path, session, strlen(session));
		if (err)
			return err;
		rest = token + strlen(SESSION_TOKEN);
	}
	err = path_add(path, rest, strlen(rest));
	if (!err)
		err = path_add(path, "/", 1);
	if (!err)
		err = path_add(path, name, strlen(name));
	return err;
}

/* What the protocol or this server cannot express is refused, not bent. */
static int check_device(struct rnbd_opening *o)
{
	struct block_device *bdev = o->dev.bdev;

	if (bdev_is_zoned(bdev)) {
		pr_err_ratelimited("%s: %s is a zoned device, these cannot be exported\n",
				   o->session->name, o->name);
		return -EOPNOTSUPP;
	}
	if (!rnbd_block_size_ok(bdev_logical_block_size(bdev))) {
		pr_err_ratelimited("%s: %s has logical blocks of %u bytes, more than 32768 cannot be exported\n",
				   o->session->name, o->name,
				   bdev_logical_block_size(bdev));
		return -EOPNOTSUPP;
	}
	return 0;
}

/**
 * rnbd_export_open() - open the block device of an opening
 * @o:		the opening, with session, name and mode
 *
 * A read-only opening opens the device for reading only. The device is shared
 * with whoever else uses it on this machine.
 *
 * The path is looked up from the root of user space's first process.
 *
 * Context: process context of a kernel thread; may sleep for long.
 * Return: 0, -EINVAL for a path that is too long, -EOPNOTSUPP for a device
 * that cannot be exported, or the errno of the open.
 */
int rnbd_export_open(struct rnbd_opening *o)
{
	struct path_buf path = {};
	int err;

	path.str = kmalloc(PATH_MAX, GFP_KERNEL);
	if (!path.str)
		return -ENOMEM;
	err = path_build(&path, o->session->name, o->name);
	if (err) {
		pr_err_ratelimited("%s: %s: with the search path longer than %d characters\n",
				   o->session->name, o->name, PATH_MAX - 1);
		goto out;
	}
	scoped_with_init_fs()
		err = compat_bdev_open(&o->dev, path.str,
				       o->mode != RNBD_ACCESS_RO);
	if (err) {
		pr_err_ratelimited("%s: cannot open %s %s: %pe\n",
				   o->session->name, path.str,
				   rnbd_access_name(o->mode), ERR_PTR(err));
		goto out;
	}
	err = check_device(o);
	if (err) {
		compat_bdev_close(&o->dev);
		goto out;
	}
	/* Once, not with every request: a disk that is removed may lose its tags. */
	o->nowait = compat_bdev_nowait(o->dev.bdev);
out:
	kfree(path.str);
	return err;
}

/**
 * rnbd_export_describe() - fill in what a client must know about a device
 * @bdev:	the open device
 * @rsp:	all but the device id is filled in
 *
 * Context: any.
 */
void rnbd_export_describe(struct block_device *bdev, struct rnbd_open_rsp *rsp)
{
	struct request_queue *q = bdev_get_queue(bdev);

	rsp->nsectors = bdev_nr_sectors(bdev);
	rsp->max_hw_sectors = queue_max_hw_sectors(q);
	rsp->max_segments = queue_max_segments(q);
	rsp->max_write_zeroes_sectors = bdev_write_zeroes_sectors(bdev);
	rsp->max_discard_sectors = bdev_max_discard_sectors(bdev);
	rsp->discard_granularity = bdev_discard_granularity(bdev);
	rsp->discard_alignment = bdev_discard_alignment(bdev);
	rsp->secure_erase = bdev_max_secure_erase_sectors(bdev) != 0;
	rsp->logical_block_size = bdev_logical_block_size(bdev);
	/* Only a hint, so one that does not fit into the message is lowered. */
	rsp->physical_block_size =
		min_t(u32, bdev_physical_block_size(bdev), 32768);
	rsp->fua = bdev_fua(bdev);
	rsp->writeback = bdev_write_cache(bdev);
}

static struct rnbd_export *find_export(struct block_device *bdev)
{
	struct rnbd_export *e;

	list_for_each_entry(e, &exports, entry)
		if (e->bdev == bdev)
			return e;
	return NULL;
}

/*
 * Somebody still holds a removed disk whose name the system has given to a new
 * one: the name in sysfs goes to the new one, too.
 */
static int make_way(const char *name)
{
	static unsigned int nr_stale;
	struct rnbd_export *e;
	char *stale;
	int err;

	list_for_each_entry(e, &exports, entry) {
		if (strcmp(kobject_name(&e->kobj), name))
			continue;
		stale = kasprintf(GFP_KERNEL, "%s#%u", name, ++nr_stale);
		if (!stale)
			return -ENOMEM;
		err = kobject_rename(&e->kobj, stale);
		kfree(stale);
		return err;
	}
	return 0;
}

/**
 * rnbd_export_free() - free the memory of an export
 * @e:		the export
 *
 * Context: the kobject's release.
 */
void rnbd_export_free(struct rnbd_export *e)
{
	kfree(e);
	rnbd_object_put();
}

static int add_nodes(struct rnbd_export *e)
{
	struct kobject *disk = &disk_to_dev(e->bdev->bd_disk)->kobj;
	char *name = kasprintf(GFP_KERNEL, "%pg", e->bdev);
	int err;

	if (!name)
		return -ENOMEM;
	strreplace(name, '/', '!');
	err = make_way(name);
	if (!err)
		err = kobject_add(&e->kobj, rnbd_sysfs_devices(), "%s", name);
	kfree(name);
	if (err)
		return err;
	err = sysfs_create_link(&e->kobj, disk, "block_dev");
	if (err)
		goto del;
	e->sessions = kobject_create_and_add("sessions", &e->kobj);
	if (e->sessions)
		return 0;
	err = -ENOMEM;
	sysfs_remove_link(&e->kobj, "block_dev");
del:
	kobject_del(&e->kobj);
	return err;
}

static struct rnbd_export *export_create(struct block_device *bdev)
{
	struct rnbd_export *e = kzalloc(sizeof(*e), GFP_KERNEL);
	int err;

	if (!e)
		return ERR_PTR(-ENOMEM);
	e->bdev = bdev;
	INIT_LIST_HEAD(&e->openings);
	rnbd_object_get();
	compat_kobject_init(&e->kobj, &rnbd_export_ktype);
	err = add_nodes(e);
	if (err) {
		kobject_put(&e->kobj);
		return ERR_PTR(err);
	}
	list_add_tail(&e->entry, &exports);
	return e;
}

static void export_destroy(struct rnbd_export *e)
{
	list_del(&e->entry);
	kobject_del(e->sessions);
	kobject_put(e->sessions);
	sysfs_remove_link(&e->kobj, "block_dev");
	kobject_del(&e->kobj);
	kobject_put(&e->kobj);
}

static struct rnbd_opening *find_namesake(struct rnbd_export *e,
					  struct rnbd_opening *o)
{
	struct rnbd_opening *other;

	list_for_each_entry(other, &e->openings, export_entry)
		if (!strcmp(other->session->name, o->session->name))
			return other;
	return NULL;
}

static int check_access(struct rnbd_export *e, struct rnbd_opening *o)
{
	unsigned int max_writers = o->mode == RNBD_ACCESS_MIGRATION ? 2 : 1;

	if (o->mode == RNBD_ACCESS_RO || e->writers < max_writers)
		return 0;
	pr_err_ratelimited("%s: refused to open %s (%pg) %s: %s it\n",
			   o->session->name, o->name, e->bdev,
			   rnbd_access_name(o->mode),
			   e->writers == 1 ? "another client writes to" :
					     "two clients write to");
	return -EPERM;
}

/*
 * A session has a device once. If the other opening is at its end (its client
 * does not wait for CLOSE, or a former session of the client has just ended)
 * it is returned, referenced, and worth waiting for.
 */
static int attach_locked(struct rnbd_opening *o, struct rnbd_opening **closing)
{
	struct rnbd_export *e = find_export(o->dev.bdev);
	struct rnbd_opening *other;
	int err;

	if (!e)
		e = export_create(o->dev.bdev);
	if (IS_ERR(e))
		return PTR_ERR(e);

	other = find_namesake(e, o);
	if (other && READ_ONCE(other->state) >= RNBD_OPENING_CLOSING) {
		kobject_get(&other->kobj);
		*closing = other;
		return -EBUSY;
	}
	if (other) {
		pr_err_ratelimited("%s: %s is the device (%pg) it has open as %s\n",
				   o->session->name, o->name, e->bdev,
				   other->name);
		return -EEXIST;
	}
	err = check_access(e, o);
	if (!err)
		err = kobject_add(&o->kobj, e->sessions, "%s",
				  o->session->name);
	if (!err) {
		o->export = e;
		list_add_tail(&o->export_entry, &e->openings);
		if (o->mode != RNBD_ACCESS_RO)
			e->writers++;
	} else if (list_empty(&e->openings)) {
		export_destroy(e);
	}
	return err;
}

/**
 * rnbd_export_attach() - make an opening known: access rules, sysfs
 * @o:		the opening, its device open
 *
 * Context: process context; waits up to ten seconds for an opening of the same
 * device and session name that is being closed.
 * Return: 0; -EPERM: too many writers; -EEXIST: the session has the device
 * open under another name; -EBUSY: a former opening does not end; -ENOMEM.
 */
int rnbd_export_attach(struct rnbd_opening *o)
{
	struct rnbd_opening *closing;
	bool again;
	int err;

	do {
		closing = NULL;
		again = false;
		mutex_lock(&exports_lock);
		err = attach_locked(o, &closing);
		mutex_unlock(&exports_lock);
		if (closing) {
			again = wait_for_completion_timeout(&closing->closed,
							    CLOSING_TIMEOUT);
			kobject_put(&closing->kobj);
		}
	} while (again);
	if (err == -EBUSY)
		pr_err_ratelimited("%s: %s: its former opening has not ended yet\n",
				   o->session->name, o->name);
	return err;
}

/**
 * rnbd_export_detach() - undo rnbd_export_attach()
 * @o:		the opening, its device still open
 *
 * Context: process context.
 */
void rnbd_export_detach(struct rnbd_opening *o)
{
	struct rnbd_export *e = o->export;

	mutex_lock(&exports_lock);
	kobject_del(&o->kobj);
	list_del(&o->export_entry);
	if (o->mode != RNBD_ACCESS_RO)
		e->writers--;
	if (list_empty(&e->openings))
		export_destroy(e);
	mutex_unlock(&exports_lock);
	o->export = NULL;
}
