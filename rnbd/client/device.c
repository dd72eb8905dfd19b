// SPDX-License-Identifier: GPL-2.0
/*
 * A device: created by map, opened by the server's answer, closed when the
 * session loses its last path, re-opened when a path is back, removed by
 * unmap.
 *
 *   init	-> open		first OPEN answered
 *   init	-> unmapped	map failed
 *   open	-> open		OPEN answered again
 *   open	-> closed	link down
 *   closed	-> open		re-OPEN answered (automatic or remap_device)
 *   open, closed -> unmapped	unmap
 *
 * The state changes only in rnbd_dev_set_state(), under the device's lock.
 * Becoming open also needs the session's lock: the answer must belong to the
 * present epoch of the session, that is, no link was lost since OPEN was sent.
 *
 * The request path reads state and handle without a lock, inside an RCU
 * section that lasts until the request is with the transport.  A link-down
 * event closes all devices and then waits for those sections; so no request
 * with a handle of the old epoch can be sent in the new one, where the server
 * may have given that number to another device.
 *
 * I/O may wait until a device is open again, and memory may wait for that I/O.
 * So whatever leads to a device being opened again, or holds a lock that is
 * needed for it, allocates without I/O.
 *
 * Lifetime.  The device is on its session's list as long as it has holds: one
 * is the mapping's, the others belong to messages without an answer.  Its
 * memory lives as long as it is on the list or the block device exists, which
 * after a forced unmap is until the last user closes it; then the session may
 * be gone long before.
 */
#include "rnbd/client/client.h"

#include <linux/rcupdate.h>
#include <linux/sched/mm.h>
#include <linux/slab.h>

static const char * const state_names[RNBD_DEV_STATES] = {
	[RNBD_DEV_INIT]		= "init",
	[RNBD_DEV_OPEN]		= "open",
	[RNBD_DEV_CLOSED]	= "closed",
	[RNBD_DEV_UNMAPPED]	= "unmapped",
};

/**
 * rnbd_dev_state_name() - the state in a word
 * @dev:	the device
 *
 * Return: init, open, closed or unmapped.
 */
const char *rnbd_dev_state_name(const struct rnbd_dev *dev)
{
	return state_names[READ_ONCE(dev->state)];
}

/**
 * rnbd_dev_set_state() - the only place where the state changes
 * @dev:	the device
 * @state:	the new state
 *
 * What the new state needs (the handle) must have been stored before.
 *
 * Context: process, device lock held.
 *
 * Return: whether the present state allows it.
 */
bool rnbd_dev_set_state(struct rnbd_dev *dev, enum rnbd_dev_state state)
{
	lockdep_assert_held(&dev->lock);

	if (!rnbd_dev_may(dev->state, state))
		return false;
	/* The handle before the state: pairs with rnbd_queue_rq(). */
	smp_store_release(&dev->state, state);
	return true;
}

/*
 * Lifetime
 */

static void rnbd_dev_free(struct kref *ref)
{
	struct rnbd_dev *dev = container_of(ref, struct rnbd_dev, ref);

	mutex_destroy(&dev->lock);
	kfree(dev->link);
	kfree(dev);
	rnbd_object_put();
}

/**
 * rnbd_dev_put() - give back a reference to the memory
 * @dev:	the device
 *
 * Context: process.
 */
void rnbd_dev_put(struct rnbd_dev *dev)
{
	kref_put(&dev->ref, rnbd_dev_free);
}

/**
 * rnbd_dev_hold() - keep a device on its session's list
 * @dev:	a device that is on the list
 *
 * Context: process.
 */
void rnbd_dev_hold(struct rnbd_dev *dev)
{
	mutex_lock(&dev->sess->lock);
	dev->holds++;
	mutex_unlock(&dev->sess->lock);
}

/**
 * rnbd_dev_unhold() - undo rnbd_dev_hold()
 * @dev:	the device; with the last hold it is off the list, its session
 *		may vanish, and unless the disk keeps it, it is freed
 *
 * Context: process.
 */
void rnbd_dev_unhold(struct rnbd_dev *dev)
{
	struct rnbd_session *sess = dev->sess;
	bool last;

	/* Others may end the session before we are out of mutex_unlock(). */
	kref_get(&sess->ref);
	mutex_lock(&sess->lock);
	last = !--dev->holds;
	if (last)
		list_del_init(&dev->entry);
	mutex_unlock(&sess->lock);
	if (last) {
		rnbd_dev_put(dev);
		rnbd_session_event(sess);
		rnbd_session_unref(sess);
	}
	rnbd_session_unref(sess);
}

static struct rnbd_dev *rnbd_dev_find(struct rnbd_session *sess,
				      const char *name)
{
	struct rnbd_dev *dev;

	lockdep_assert_held(&sess->lock);
	list_for_each_entry(dev, &sess->devices, entry)
		if (!strcmp(dev->name, name))
			return dev;
	return NULL;
}

/*
 * Puts the device on the list once its name is free.  One that is just being
 * unmapped, or whose interrupted map is being undone, is waited for.
 */
static int rnbd_dev_enlist(struct rnbd_session *sess, struct rnbd_dev *dev)
{
	unsigned long deadline = jiffies + RNBD_CLOSE_TIMEOUT * HZ;
	struct rnbd_dev *other;
	long left;
	int seen;

	for (;;) {
		seen = atomic_read(&sess->events);
		mutex_lock(&sess->lock);
		other = rnbd_dev_find(sess, dev->name);
		if (!other) {
			kref_get(&sess->ref);
			dev->holds = 1;
			list_add_tail(&dev->entry, &sess->devices);
			mutex_unlock(&sess->lock);
			return 0;
		}
		if (READ_ONCE(other->state) != RNBD_DEV_UNMAPPED) {
			mutex_unlock(&sess->lock);
			pr_err("%s@%s: is mapped already\n", dev->name,
			       sess->name);
			return -EEXIST;
		}
		mutex_unlock(&sess->lock);
		if (time_after(jiffies, deadline)) {
			pr_err("%s@%s: an earlier mapping is still waiting for the server's answer\n",
			       dev->name, sess->name);
			return -EBUSY;
		}
		left = wait_event_interruptible_timeout(sess->wait,
							atomic_read(&sess->events) != seen,
							HZ);
		if (left < 0)
			return left;
	}
}

static void rnbd_reopen_work(struct work_struct *work);

/**
 * rnbd_dev_create() - make a device and put it on its session's list
 * @sess:	the session, in use by the caller
 * @opts:	what to map
 *
 * Context: process, may sleep; no locks held.
 *
 * Return: the device in state init, with one hold that is the caller's; or
 * -EEXIST: mapped already; -EBUSY: an earlier mapping of it is not yet undone;
 * -EINVAL: its I/O cannot wait; -ENOMEM; -ERESTARTSYS.
 */
struct rnbd_dev *rnbd_dev_create(struct rnbd_session *sess,
				 const struct rnbd_map_options *opts)
{
	struct rnbd_dev *dev;
	int err;

	err = rnbd_wait_check(sess, opts->fail_tmo);
	if (err)
		return ERR_PTR(err);
	dev = kzalloc(sizeof(*dev), GFP_KERNEL);
	if (!dev)
		return ERR_PTR(-ENOMEM);
	dev->link = kasprintf(GFP_KERNEL, "%s@%s", opts->dev, sess->name);
	if (!dev->link) {
		kfree(dev);
		return ERR_PTR(-ENOMEM);
	}
	strreplace(dev->link, '/', '!');
	rnbd_object_get();
	kref_init(&dev->ref);
	mutex_init(&dev->lock);
	INIT_LIST_HEAD(&dev->entry);
	INIT_DELAYED_WORK(&dev->reopen, rnbd_reopen_work);
	rnbd_wait_init(dev);
	dev->sess = sess;
	dev->mode = opts->mode;
	dev->nr_poll_queues = opts->nr_poll_queues;
	dev->fail_tmo = opts->fail_tmo;
	memcpy(dev->name, opts->dev, sizeof(dev->name));

	err = rnbd_dev_enlist(sess, dev);
	if (err) {
		rnbd_dev_put(dev);
		return ERR_PTR(err);
	}
	return dev;
}

/*
 * Opening
 */

static bool rnbd_dev_id_in_use(struct rnbd_session *sess,
			       struct rnbd_dev *except, u32 id)
{
	struct rnbd_dev *dev;

	lockdep_assert_held(&sess->lock);
	list_for_each_entry(dev, &sess->devices, entry)
		if (dev != except && READ_ONCE(dev->state) == RNBD_DEV_OPEN &&
		    READ_ONCE(dev->id) == id)
			return true;
	return false;
}

/* What a disk cannot change while it is in use must be as it was. */
static bool rnbd_dev_same(struct rnbd_dev *dev, const struct rnbd_open_rsp *rsp)
{
	if (rsp->logical_block_size != dev->geom.logical_block_size) {
		rnbd_err(dev, "stays closed: its logical block size was %u and is %u now; unmap it and map it again\n",
			 dev->geom.logical_block_size, rsp->logical_block_size);
		return false;
	}
	if (rsp->writeback && !dev->geom.writeback) {
		rnbd_err(dev, "stays closed: it has got a volatile write cache that it did not have; unmap it and map it again\n");
		return false;
	}
	return true;
}

static int rnbd_dev_opened_locked(struct rnbd_dev *dev,
				  const struct rnbd_open_rsp *rsp, u32 epoch)
{
	bool was_closed = dev->state == RNBD_DEV_CLOSED;

	if (dev->state == RNBD_DEV_UNMAPPED)
		return -ENODEV;
	if (epoch != dev->sess->epoch)
		return -ECONNABORTED;
	if (rnbd_dev_id_in_use(dev->sess, dev, rsp->device_id)) {
		rnbd_err(dev, "the server gave handle %u, which another device has\n",
			 rsp->device_id);
		return -EINVAL;
	}
	if (dev->state == RNBD_DEV_INIT)
		dev->geom = *rsp;
	else if (!rnbd_dev_same(dev, rsp))
		return -EMEDIUMTYPE;

	WRITE_ONCE(dev->id, rsp->device_id);
	dev->epoch = epoch;
	rnbd_dev_set_state(dev, RNBD_DEV_OPEN);
	dev->reopen_error = 0;
	/* First: what follows may need memory that waits to be written. */
	rnbd_wait_end(dev);
	set_capacity_and_notify(dev->disk, rnbd_disk_sectors(rsp));
	if (was_closed) {
		rnbd_info(dev, "open again\n");
		if (dev->announced)
			kobject_uevent(&disk_to_dev(dev->disk)->kobj,
				       KOBJ_ONLINE);
	}
	return 0;
}

/**
 * rnbd_dev_opened() - the server opened the device
 * @dev:	the device; it has a disk
 * @rsp:	what the server said
 * @epoch:	the epoch of that
 *
 * Context: process, no locks held.
 *
 * Return: 0: the device is open; -ECONNABORTED: the link was lost meanwhile,
 * the answer is void; -ENODEV: unmapped meanwhile; -EINVAL: two devices with
 * one handle; -EMEDIUMTYPE: the device is no longer what the disk was made of.
 */
int rnbd_dev_opened(struct rnbd_dev *dev, const struct rnbd_open_rsp *rsp,
		    u32 epoch)
{
	int err;

	mutex_lock(&dev->sess->lock);
	mutex_lock(&dev->lock);
	err = rnbd_dev_opened_locked(dev, rsp, epoch);
	mutex_unlock(&dev->lock);
	mutex_unlock(&dev->sess->lock);
	return err;
}

/**
 * rnbd_dev_close() - close what the server has open and nobody here wants
 * @dev:	the device it was opened for
 * @id:		the server's handle; not closed if an open device has it
 * @epoch:	the session's epoch it belongs to
 *
 * Context: process, may sleep; no locks held.
 */
void rnbd_dev_close(struct rnbd_dev *dev, u32 id, u32 epoch)
{
	bool in_use;

	mutex_lock(&dev->sess->lock);
	in_use = rnbd_dev_id_in_use(dev->sess, NULL, id);
	mutex_unlock(&dev->sess->lock);
	if (!in_use)
		rnbd_send_close(dev, id, epoch);
}

/**
 * rnbd_dev_retire() - a map has failed
 * @dev:	the device
 *
 * Nobody opens the device any more, and no OPEN of it is waited for.
 *
 * Context: process; no locks held; only the map operation.
 */
void rnbd_dev_retire(struct rnbd_dev *dev)
{
	mutex_lock(&dev->lock);
	rnbd_dev_set_state(dev, RNBD_DEV_UNMAPPED);
	mutex_unlock(&dev->lock);
	rnbd_session_event(dev->sess);
	cancel_delayed_work_sync(&dev->reopen);
}

/**
 * rnbd_dev_announce() - map has succeeded
 * @dev:	the device; from now on anybody may unmap it
 *
 * Context: process; no locks held; only the map operation.
 */
void rnbd_dev_announce(struct rnbd_dev *dev)
{
	unsigned int noio = memalloc_noio_save();

	/* It may be unmapped before we are out of mutex_unlock(). */
	kref_get(&dev->ref);
	mutex_lock(&dev->lock);
	dev->announced = true;
	if (dev->state == RNBD_DEV_CLOSED)
		rnbd_wait_begin(dev);
	else if (dev->state == RNBD_DEV_OPEN)
		kobject_uevent(&disk_to_dev(dev->disk)->kobj, KOBJ_ONLINE);
	mutex_unlock(&dev->lock);
	rnbd_dev_put(dev);
	memalloc_noio_restore(noio);
}

/**
 * rnbd_dev_reopen() - OPEN a closed device again
 * @dev:	the device, mapped
 *
 * Context: process, may sleep; no locks held.
 *
 * Return: 0: it is open; or an error of rnbd_send_open() or rnbd_dev_opened().
 */
int rnbd_dev_reopen(struct rnbd_dev *dev)
{
	unsigned int noio = memalloc_noio_save();
	struct rnbd_open_rsp rsp;
	u32 epoch;
	int err;

	err = rnbd_send_open(dev, &rsp, &epoch);
	if (!err) {
		err = rnbd_dev_opened(dev, &rsp, epoch);
		if (err)
			rnbd_dev_close(dev, rsp.device_id, epoch);
	}
	memalloc_noio_restore(noio);
	return err;
}

/**
 * rnbd_dev_late_open() - OPEN succeeded after its sender had given up
 * @dev:	the device, on its session's list, perhaps unmapped
 * @rsp:	what the server said
 * @epoch:	the epoch of that
 *
 * A closed device becomes open; what was not mapped after all is closed at the
 * server.
 *
 * Context: process, may sleep; no locks held.
 */
void rnbd_dev_late_open(struct rnbd_dev *dev, const struct rnbd_open_rsp *rsp,
			u32 epoch)
{
	enum rnbd_dev_state state = READ_ONCE(dev->state);
	unsigned int noio = memalloc_noio_save();
	int err = -ENODEV;

	/* In state init there is no disk, and its map is about to fail. */
	if (state == RNBD_DEV_CLOSED || state == RNBD_DEV_OPEN)
		err = rnbd_dev_opened(dev, rsp, epoch);
	if (err)
		rnbd_dev_close(dev, rsp->device_id, epoch);
	memalloc_noio_restore(noio);
}

static void rnbd_reopen_work(struct work_struct *work)
{
	struct rnbd_dev *dev = container_of(to_delayed_work(work),
					    struct rnbd_dev, reopen);
	int err;

	if (READ_ONCE(dev->state) != RNBD_DEV_CLOSED)
		return;
	err = rnbd_dev_reopen(dev);
	if (!err)
		return;
	mutex_lock(&dev->lock);
	if (dev->state == RNBD_DEV_CLOSED && READ_ONCE(dev->sess->link_up)) {
		if (err != dev->reopen_error && err != -ECONNABORTED)
			rnbd_err(dev, "cannot be opened again: %pe; retrying while the session is up\n",
				 ERR_PTR(err));
		dev->reopen_error = err;
		queue_delayed_work(rnbd_wq, &dev->reopen,
				   dev->reopen_delay * HZ);
		dev->reopen_delay = min_t(unsigned int, dev->reopen_delay * 2,
					  RNBD_REOPEN_MAX);
	}
	mutex_unlock(&dev->lock);
}

/*
 * Link events
 */

/**
 * rnbd_dev_link_down() - the session lost its last path
 * @dev:	the device
 *
 * Context: process, session lock held.
 */
void rnbd_dev_link_down(struct rnbd_dev *dev)
{
	mutex_lock(&dev->lock);
	if (dev->state == RNBD_DEV_OPEN) {
		rnbd_wait_begin(dev);
		rnbd_dev_set_state(dev, RNBD_DEV_CLOSED);
		if (dev->announced)
			kobject_uevent(&disk_to_dev(dev->disk)->kobj,
				       KOBJ_OFFLINE);
	}
	mutex_unlock(&dev->lock);
}

/**
 * rnbd_dev_link_up() - the session has a path again
 * @dev:	the device
 *
 * Context: process, session lock held.
 */
void rnbd_dev_link_up(struct rnbd_dev *dev)
{
	mutex_lock(&dev->lock);
	if (dev->state == RNBD_DEV_CLOSED) {
		dev->reopen_delay = RNBD_REOPEN_MIN;
		dev->reopen_error = 0;
		mod_delayed_work(rnbd_wq, &dev->reopen, 0);
	}
	mutex_unlock(&dev->lock);
}
