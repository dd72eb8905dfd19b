// SPDX-License-Identifier: GPL-2.0
/*
 * I/O without an answer: how long it waits, and for what.
 *
 * The session is gone.  A device that has lost its session fails its I/O at
 * once, unless fast_io_fail_tmo says for how many seconds it shall wait.  Then
 * its queue is quiesced, so that new requests stay with the block layer; those
 * that the transport gives back for want of a path are requeued to them
 * (disk.c).  The wait ends, once, by whoever comes first: the device is open
 * again, the time is over, the device is unmapped.  In the last two cases the
 * requests are dispatched into a device that is not open, and so fail.  It
 * begins anew only with another lost link.
 *
 * @waiting is set before the state leaves open and reset after it has changed
 * again, so a request that is just being dispatched never finds a closed device
 * that does not wait.  It holds its tag meanwhile; other devices of the session
 * have to do with the rest, and if nothing is left they wait with it.  Messages
 * have tags of their own, without which a session cannot wait.
 *
 * What waits may be a flush, and the server may have crashed meanwhile.  Then
 * its answer would mean nothing: what a volatile cache had lost is lost, though
 * it had been acknowledged, and nobody would be told.  Nothing on the wire tells
 * a crash from a cut cable.  So a device with such a cache that may wait has all
 * its writes made durable one by one (FUA), and has no zeroes written by the
 * server, for these cannot be.
 *
 * The server does not answer, but its heart beats.  Requests can be ended only
 * by ending the path they are on, which other devices of the session use as
 * well.  So by default nobody does that but a map or an unmap, which have to
 * end: what they wait for in vain is reaped.  The administrator can set
 * queue/io_timeout (disk.c).
 */
#include "rnbd/client/client.h"

/* A request that has just moved to another path is looked at again soon. */
#define REAP_AGAIN	HZ
/* One that has just been sent is not what makes a map or unmap take so long. */
#define REAP_MIN_AGE	(3 * HZ)

static bool may_wait_while_open(const struct rnbd_dev *dev)
{
	/* Before @waiting is looked at; pairs with rnbd_dev_set_state(). */
	return smp_load_acquire(&dev->state) == RNBD_DEV_OPEN &&
	       READ_ONCE(dev->fail_tmo) && READ_ONCE(dev->announced) &&
	       !READ_ONCE(dev->sess->shut);
}

/**
 * rnbd_may_wait() - may a request that has no path wait for one?
 * @dev:	the device
 *
 * Context: any.
 *
 * Return: whether it may; if not it fails.
 */
bool rnbd_may_wait(const struct rnbd_dev *dev)
{
	/*
	 * Open: all paths are lost but the session has not been told yet.
	 * Looked at before and after, since it is set last when a wait begins
	 * and first when it ends.
	 */
	return may_wait_while_open(dev) || smp_load_acquire(&dev->waiting) ||
	       may_wait_while_open(dev);
}

static unsigned long wait_left(const struct rnbd_dev *dev)
{
	unsigned long end = dev->closed_at + dev->fail_tmo * HZ;

	return time_after(end, jiffies) ? end - jiffies : 0;
}

/**
 * rnbd_wait_begin() - the session is lost
 * @dev:	the device, not marked as closed yet; or just announced while
 *		it is
 *
 * Context: process, device lock held.
 */
void rnbd_wait_begin(struct rnbd_dev *dev)
{
	lockdep_assert_held(&dev->lock);

	if (!dev->fail_tmo || !dev->announced || READ_ONCE(dev->sess->shut))
		return;
	WRITE_ONCE(dev->waiting, true);
	blk_mq_quiesce_queue_nowait(dev->disk->queue);
	dev->closed_at = jiffies;
	mod_delayed_work(rnbd_timer_wq, &dev->wait_end, wait_left(dev));
	rnbd_info(dev, "I/O waits up to %u s for the session to return\n",
		  dev->fail_tmo);
}

/**
 * rnbd_wait_end() - nobody waits any more
 * @dev:	the device, in the state that decides what becomes of its requests
 *
 * Context: process, device lock held.
 */
void rnbd_wait_end(struct rnbd_dev *dev)
{
	lockdep_assert_held(&dev->lock);

	if (!dev->waiting)
		return;
	/* After the state; pairs with rnbd_may_wait(). */
	smp_store_release(&dev->waiting, false);
	cancel_delayed_work(&dev->wait_end);
	blk_mq_unquiesce_queue(dev->disk->queue);
	/* Older kernels may overlook one that comes just now. */
	blk_mq_delay_kick_requeue_list(dev->disk->queue, RNBD_REQUEUE_MS);
}

static void wait_end_work(struct work_struct *work)
{
	struct rnbd_dev *dev = container_of(to_delayed_work(work),
					    struct rnbd_dev, wait_end);

	mutex_lock(&dev->lock);
	if (dev->waiting) {
		unsigned long left = wait_left(dev);

		/* It may meet another wait than the one it was queued for. */
		if (left) {
			queue_delayed_work(rnbd_timer_wq, &dev->wait_end, left);
		} else {
			rnbd_err(dev, "the session has not returned within %u s: I/O fails until it does\n",
				 dev->fail_tmo);
			rnbd_wait_end(dev);
		}
	}
	mutex_unlock(&dev->lock);
}

/**
 * rnbd_wait_check() - may I/O of a session wait so long?
 * @sess:	the session, ready
 * @secs:	seconds
 *
 * Context: any.
 *
 * Return: 0; -EINVAL: too long, or this session cannot wait at all.
 */
int rnbd_wait_check(const struct rnbd_session *sess, unsigned int secs)
{
	if (secs > RNBD_MAX_FAIL_TMO) {
		pr_err("fast_io_fail_tmo: %u s are more than %u\n", secs,
		       RNBD_MAX_FAIL_TMO);
		return -EINVAL;
	}
	/* Waiting requests have all tags, and OPEN needs one to end the wait. */
	if (secs && !sess->nr_msg_tags) {
		pr_err("fast_io_fail_tmo: session %s has %u tags only, none for messages: I/O cannot wait\n",
		       sess->name, sess->lim.nr_tags);
		return -EINVAL;
	}
	return 0;
}

/**
 * rnbd_wait_set() - change for how long I/O waits
 * @dev:	the device
 * @secs:	seconds from the loss of the session on; 0: not at all
 *
 * Context: process, may sleep; no locks held.
 *
 * Return: 0 or an error of rnbd_wait_check().
 */
int rnbd_wait_set(struct rnbd_dev *dev, unsigned int secs)
{
	int err = rnbd_wait_check(dev->sess, secs);

	if (err)
		return err;
	mutex_lock(&dev->lock);
	WRITE_ONCE(dev->fail_tmo, secs);
	if (dev->waiting)
		mod_delayed_work(rnbd_timer_wq, &dev->wait_end, wait_left(dev));
	mutex_unlock(&dev->lock);
	return 0;
}

static bool reap_one(struct request *rq, void *data)
{
	struct rnbd_dev *dev = data;
	/* Counts from the last look at it, see rnbd_timed_out(). */
	unsigned long since = READ_ONCE(rq->deadline) - READ_ONCE(rq->timeout);

	if (rq->q == dev->disk->queue &&
	    time_after(jiffies, since + REAP_MIN_AGE))
		rnbd_disk_expire(rq, RTRS_EXPIRE_END);
	return true;
}
COMPAT_TAG_ITER(reap_one);

static void reap_work(struct work_struct *work)
{
	struct rnbd_dev *dev = container_of(to_delayed_work(work),
					    struct rnbd_dev, reap);

	blk_mq_tagset_busy_iter(&dev->sess->tag_set,
				compat_tag_iter(reap_one), dev);
	queue_delayed_work(rnbd_timer_wq, &dev->reap, REAP_AGAIN);
}

/**
 * rnbd_reap_begin() - requests of a device must end
 * @dev:	the device; it has a disk
 * @secs:	seconds they are given to end by themselves
 *
 * Context: process; only the map or unmap that owns the device.
 */
void rnbd_reap_begin(struct rnbd_dev *dev, unsigned int secs)
{
	queue_delayed_work(rnbd_timer_wq, &dev->reap, secs * HZ);
}

/**
 * rnbd_reap_end() - they have
 * @dev:	the device
 *
 * Context: process, may sleep; the caller of rnbd_reap_begin().
 */
void rnbd_reap_end(struct rnbd_dev *dev)
{
	cancel_delayed_work_sync(&dev->reap);
}

/**
 * rnbd_wait_init() - prepare a device
 * @dev:	the device
 */
void rnbd_wait_init(struct rnbd_dev *dev)
{
	INIT_DELAYED_WORK(&dev->wait_end, wait_end_work);
	INIT_DELAYED_WORK(&dev->reap, reap_work);
}
