// SPDX-License-Identifier: GPL-2.0
/*
 * Map and unmap.  A map operation owns the device it creates until it has
 * succeeded; from then on whoever moves the state to unmapped owns it, and
 * only one can.  Both run in process context without locks.
 *
 * Map builds up in this order, and undoes from where it failed:
 *   session, device on its list, OPEN, disk, state open, disk visible (with
 *   its rnbd directory, before the uevent), link in ctl/devices/.
 * Unmap takes down in this order:
 *   1. state unmapped: no new opens, no new requests, no state changes by
 *	others; who waits for an OPEN of this device gives up; I/O that waits
 *	for the session fails;
 *   2. re-open work cancelled, and the end of a wait;
 *   3. link removed;
 *   4. disk removed: waits for stores into its attributes and for requests;
 *	those that are not answered in half a minute cost the path they are on;
 *   5. CLOSE, if the device was open at the server;
 *   6. our reference to the disk, our hold on the list, the session.
 * In a forced unmap the block device may still be open; then the disk, and
 * with it the memory of the device, lives until it is closed.
 */
#include "rnbd/client/client.h"

#include <linux/slab.h>

static int rnbd_map_parse_paths(const struct rnbd_map_options *opts,
				struct rtrs_addr *addr)
{
	unsigned int i;
	int err;

	for (i = 0; i < opts->nr_paths; i++) {
		err = rtrs_addr_parse(opts->path[i], strlen(opts->path[i]),
				      opts->port, &addr[i]);
		if (err) {
			pr_err("map_device: path: \"%s\": %s\n", opts->path[i],
			       err == -EPROTONOSUPPORT ?
			       "an address begins with ip: or gid:" :
			       "not an address");
			return err;
		}
	}
	return 0;
}

static int rnbd_map_disk(struct rnbd_dev *dev, const struct rnbd_open_rsp *rsp,
			 u32 epoch)
{
	int err;

	err = rnbd_disk_check(dev, rsp);
	if (err)
		return err;
	err = rnbd_disk_alloc(dev, rsp);
	if (err)
		return err;
	err = rnbd_dev_opened(dev, rsp, epoch);
	if (err)
		return err;
	/* Nobody can interrupt the search for partitions. */
	rnbd_reap_begin(dev, RNBD_SCAN_TIMEOUT);
	err = rnbd_disk_add(dev);
	rnbd_reap_end(dev);
	return err;
}

static int rnbd_map_open(struct rnbd_dev *dev)
{
	struct rnbd_open_rsp rsp;
	u32 epoch;
	int err;

	err = rnbd_send_open(dev, &rsp, &epoch);
	if (err) {
		rnbd_err(dev, "the server did not open it: %pe\n",
			 ERR_PTR(err));
		rnbd_dev_retire(dev);
		return err;
	}
	err = rnbd_map_disk(dev, &rsp, epoch);
	if (err) {
		rnbd_err(dev, "cannot make a disk of it: %pe\n", ERR_PTR(err));
		rnbd_dev_retire(dev);
		rnbd_dev_close(dev, rsp.device_id, epoch);
		rnbd_disk_drop(dev);
	}
	return err;
}

/**
 * rnbd_map() - map a device
 * @opts:	what to map
 *
 * Context: process, may sleep, interruptible; no locks held.
 *
 * Return: 0: the disk, its rnbd directory and the link exist; or an errno of
 * map_device (see the administrator's documentation) after which nothing
 * remains.
 */
int rnbd_map(const struct rnbd_map_options *opts)
{
	struct rnbd_session *sess;
	struct rtrs_addr *addr;
	struct rnbd_dev *dev;
	int err;

	addr = kcalloc(RNBD_MAP_MAX_PATHS, sizeof(*addr), GFP_KERNEL);
	if (!addr)
		return -ENOMEM;
	err = rnbd_map_parse_paths(opts, addr);
	sess = err ? ERR_PTR(err) : rnbd_session_get(opts, addr);
	kfree(addr);
	if (IS_ERR(sess))
		return PTR_ERR(sess);

	dev = rnbd_dev_create(sess, opts);
	if (IS_ERR(dev)) {
		rnbd_session_put(sess);
		return PTR_ERR(dev);
	}
	err = rnbd_map_open(dev);
	if (err) {
		rnbd_dev_unhold(dev);
		rnbd_session_put(sess);
		return err;
	}
	err = rnbd_sysfs_link(dev);
	if (err) {
		rnbd_err(dev, "cannot create the link %s: %pe\n", dev->link,
			 ERR_PTR(err));
		rnbd_dev_retire(dev);
		rnbd_unmap_finish(dev, true);
		return err;
	}
	rnbd_info(dev, "mapped as %s, %s, %llu sectors\n",
		  dev->disk->disk_name, rnbd_access_mode_name(dev->mode),
		  (unsigned long long)get_capacity(dev->disk));
	rnbd_dev_announce(dev);
	return 0;
}

/**
 * rnbd_unmap_begin() - decide that a device goes
 * @dev:	the device, kept alive by the caller
 * @force:	even if the block device is open
 * @was_open:	result: the server has it open
 *
 * Context: process; no locks held.
 *
 * Return: 0: the caller now owns the device and must call
 * rnbd_unmap_finish(); -EALREADY: somebody else does; -EBUSY: it is open, or
 * its map has not finished.
 */
int rnbd_unmap_begin(struct rnbd_dev *dev, bool force, bool *was_open)
{
	unsigned int openers;
	int err = 0;

	mutex_lock(&dev->lock);
	openers = dev->openers;
	*was_open = dev->state == RNBD_DEV_OPEN;
	if (dev->state == RNBD_DEV_UNMAPPED)
		err = -EALREADY;
	else if (!dev->announced || (openers && !force))
		err = -EBUSY;
	else
		rnbd_dev_set_state(dev, RNBD_DEV_UNMAPPED);
	if (!err)
		rnbd_wait_end(dev);
	mutex_unlock(&dev->lock);
	if (err == -EBUSY)
		rnbd_err(dev, "not unmapped: %s is %s, open %u times\n",
			 dev->disk->disk_name,
			 dev->announced ? "in use" : "just being mapped",
			 openers);
	else if (!err && openers)
		rnbd_info(dev, "unmapping by force while %s is open, %u times\n",
			  dev->disk->disk_name, openers);
	return err;
}

/**
 * rnbd_unmap_finish() - remove a device
 * @dev:	the device, after rnbd_unmap_begin() or rnbd_dev_retire(); gone
 *		afterwards
 * @was_open:	the server has it open
 *
 * Context: process, may sleep; no locks held, and not as a user of one of the
 * disk's attributes.
 */
void rnbd_unmap_finish(struct rnbd_dev *dev, bool was_open)
{
	struct rnbd_session *sess = dev->sess;

	rnbd_session_event(sess);
	cancel_delayed_work_sync(&dev->reopen);
	cancel_delayed_work_sync(&dev->wait_end);
	rnbd_sysfs_unlink(dev);
	rnbd_reap_begin(dev, RNBD_DRAIN_TIMEOUT);
	compat_del_disk(dev->disk);
	rnbd_reap_end(dev);
	if (was_open)
		rnbd_dev_close(dev, dev->id, dev->epoch);
	rnbd_info(dev, "unmapped\n");
	put_disk(dev->disk);
	rnbd_dev_unhold(dev);
	rnbd_session_put(sess);
}

/**
 * rnbd_unmap_all() - unmap everything by force
 *
 * The transports are closed first, so that nothing waits for a server; the
 * servers close the devices when they see that.
 *
 * Context: process, module unload: nobody maps or unmaps any more.
 */
void rnbd_unmap_all(void)
{
	struct rnbd_dev *dev;
	bool was_open;

	rnbd_sessions_shutdown();
	while ((dev = rnbd_sessions_any_dev())) {
		if (!rnbd_unmap_begin(dev, true, &was_open))
			rnbd_unmap_finish(dev, false);
	}
}
