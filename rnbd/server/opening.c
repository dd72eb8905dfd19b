// SPDX-License-Identifier: GPL-2.0
/*
 * An opening: one block device opened by one session.
 *
 * OPEN creates it, in the session's work, and publishes it: from then on its
 * id leads to it and its state is OPEN. It ends through one door, whoever wants
 * it (CLOSE, force_close, the end of the session):
 *
 *   claim	OPEN -> CLOSING under the table's lock, out of the table. One
 *		caller wins; the others have nothing to do.
 *   close	kill the reference counter of its I/O. Neither step waits.
 *   the end	close_work, queued when the last I/O has ended: sysfs, writer
 *		count, block device, CLOSED, the answer to CLOSE.
 *
 * Claimants that want to wait, wait for ->closed. Nobody waits in a completion
 * worker, and close_work takes no lock that a waiter holds.
 *
 * Memory. A lookup of an id runs under RCU and takes an I/O reference. The
 * counter drops to zero only a grace period after it was killed, it is killed
 * only after the opening left the table, and close_work runs only after that:
 * so no lookup sees freed memory. The kobject holds the memory; close_work
 * drops the first reference to it, force_close and waiters have their own.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/slab.h>

#include "compat/core.h"
#include "rnbd/server/server.h"

/* Entry of an id whose opening was force-closed: its client still uses it. */
#define RESERVED_ID	xa_mk_value(0)

static bool set_state(struct rnbd_opening *o, enum rnbd_opening_state to)
{
	lockdep_assert_held(&o->session->devices.xa_lock);
	if (!rnbd_opening_may(o->state, to))
		return false;
	WRITE_ONCE(o->state, to);
	return true;
}

static void io_gone(struct percpu_ref *ref)
{
	struct rnbd_opening *o = container_of(ref, struct rnbd_opening, io);

	queue_work(rnbd_admin_wq, &o->close_work);
}

static void close_work(struct work_struct *work)
{
	struct rnbd_opening *o = container_of(work, struct rnbd_opening,
					      close_work);
	struct rnbd_session *sess = o->session;
	struct rtrs_op *op = o->close_op;

	rnbd_io_flush(o);
	rnbd_export_detach(o);
	compat_bdev_close(&o->dev);
	pr_info_ratelimited("%s: closed %s\n", sess->name, o->name);

	xa_lock(&sess->devices);
	list_del(&o->session_entry);
	set_state(o, RNBD_OPENING_CLOSED);
	xa_unlock(&sess->devices);
	/* Without a CLOSE to answer the session may be gone from here on. */
	complete_all(&o->closed);
	if (op)
		rtrs_op_respond(op, 0);
	kobject_put(&o->kobj);
}

/**
 * rnbd_opening_free() - free the memory of an opening
 * @o:		the opening
 *
 * Context: the kobject's release.
 */
void rnbd_opening_free(struct rnbd_opening *o)
{
	percpu_ref_exit(&o->io);
	kfree(o);
	rnbd_object_put();
}

static struct rnbd_opening *opening_alloc(struct rnbd_session *sess,
					  const struct rnbd_open *req)
{
	struct rnbd_opening *o = kzalloc(sizeof(*o), GFP_KERNEL);

	if (!o)
		return NULL;
	if (percpu_ref_init(&o->io, io_gone, 0, GFP_KERNEL)) {
		kfree(o);
		return NULL;
	}
	o->session = sess;
	o->mode = req->mode;
	o->state = RNBD_OPENING_NEW;
	strscpy(o->name, req->name, sizeof(o->name));
	INIT_WORK(&o->close_work, close_work);
	init_completion(&o->closed);
	rnbd_io_init(o);
	rnbd_object_get();
	compat_kobject_init(&o->kobj, &rnbd_opening_ktype);
	return o;
}

/* The id was reserved by the allocator, so there is memory for the entry. */
static int publish(struct rnbd_opening *o)
{
	struct rnbd_session *sess = o->session;
	int err;

	xa_lock(&sess->devices);
	err = xa_err(__xa_store(&sess->devices, o->id, o, GFP_NOWAIT));
	if (!err) {
		set_state(o, RNBD_OPENING_OPEN);
		list_add_tail(&o->session_entry, &sess->openings);
	}
	xa_unlock(&sess->devices);
	return err;
}

/**
 * rnbd_opening_create() - open a device for a session
 * @sess:	the session
 * @req:	the checked OPEN message
 * @rsp:	what to answer, valid only on success
 *
 * Context: the session's open_work; may sleep for long.
 * Return: 0 or a negative errno.
 */
int rnbd_opening_create(struct rnbd_session *sess, const struct rnbd_open *req,
			struct rnbd_open_rsp *rsp)
{
	struct rnbd_opening *o = opening_alloc(sess, req);
	int err;

	if (!o)
		return -ENOMEM;
	err = rnbd_export_open(o);
	if (err)
		goto put;
	rnbd_export_describe(o->dev.bdev, rsp);
	err = rnbd_export_attach(o);
	if (err)
		goto close;
	err = xa_alloc_cyclic(&sess->devices, &o->id, NULL, xa_limit_32b,
			      &sess->next_id, GFP_KERNEL);
	if (err < 0)
		goto detach;
	rsp->device_id = o->id;
	err = publish(o);
	if (err)
		goto release_id;
	/* Not "o": somebody may have closed it already. */
	pr_info_ratelimited("%s: opened %s %s, device id %u\n", sess->name,
			    req->name, rnbd_access_name(req->mode),
			    rsp->device_id);
	return 0;

release_id:
	xa_erase(&sess->devices, o->id);
detach:
	rnbd_export_detach(o);
close:
	compat_bdev_close(&o->dev);
put:
	kobject_put(&o->kobj);
	return err;
}

/**
 * rnbd_opening_get() - find an opening by its id
 * @sess:	the session
 * @id:		device id from the wire
 *
 * Context: any that may take the RCU read lock.
 * Return: the opening, to be given back with rnbd_opening_put(), or NULL.
 */
struct rnbd_opening *rnbd_opening_get(struct rnbd_session *sess, u32 id)
{
	struct rnbd_opening *o;

	rcu_read_lock();
	o = xa_load(&sess->devices, id);
	if (xa_is_value(o) || (o && !percpu_ref_tryget_live(&o->io)))
		o = NULL;
	rcu_read_unlock();
	return o;
}

/**
 * rnbd_opening_get_by_name() - find an opening by the client's name for it
 * @sess:	the session
 * @name:	device name from the wire
 *
 * An opening whose disk has been removed from the system is closed instead,
 * its id stays reserved.
 *
 * Context: process context.
 * Return: the opening, to be given back with rnbd_opening_put(), or NULL.
 */
struct rnbd_opening *rnbd_opening_get_by_name(struct rnbd_session *sess,
					      const char *name)
{
	struct rnbd_opening *o, *found = NULL;

	xa_lock(&sess->devices);
	list_for_each_entry(o, &sess->openings, session_entry) {
		if (o->state != RNBD_OPENING_OPEN || strcmp(o->name, name))
			continue;
		/* OPEN: not claimed, hence not killed. */
		percpu_ref_get(&o->io);
		found = o;
		break;
	}
	xa_unlock(&sess->devices);

	if (found && rnbd_opening_is_dead(found)) {
		if (rnbd_opening_claim(found, true))
			rnbd_opening_close(found, NULL);
		rnbd_opening_put(found);
		found = NULL;
	}
	return found;
}

/**
 * rnbd_opening_put() - give back what rnbd_opening_get() has returned
 * @o:		the opening; do not touch it any more
 *
 * Context: any.
 */
void rnbd_opening_put(struct rnbd_opening *o)
{
	percpu_ref_put(&o->io);
}

static bool claim_locked(struct rnbd_opening *o, bool keep_id)
{
	struct xarray *devices = &o->session->devices;

	if (!set_state(o, RNBD_OPENING_CLOSING))
		return false;
	/* Replaces an entry, needs no memory. */
	if (keep_id)
		__xa_store(devices, o->id, RESERVED_ID, GFP_NOWAIT);
	else
		__xa_erase(devices, o->id);
	return true;
}

/**
 * rnbd_opening_claim() - become the one who ends an opening
 * @o:		the opening, with a reference to its I/O or its kobject, not
 *		CLOSED
 * @keep_id:	the client does not know, so its id must not get a new meaning
 *
 * Context: any but interrupts.
 * Return: true: the caller must call rnbd_opening_close(); false: it is not
 * open yet or somebody else was faster.
 */
bool rnbd_opening_claim(struct rnbd_opening *o, bool keep_id)
{
	struct xarray *devices = &o->session->devices;
	bool claimed;

	xa_lock(devices);
	claimed = claim_locked(o, keep_id);
	xa_unlock(devices);
	return claimed;
}

/**
 * rnbd_opening_close() - end a claimed opening
 * @o:		the opening; do not touch it any more without a reference
 * @op:		the CLOSE message to answer at the end, or NULL
 *
 * Context: any; does not wait.
 */
void rnbd_opening_close(struct rnbd_opening *o, struct rtrs_op *op)
{
	o->close_op = op;
	percpu_ref_kill(&o->io);
}

/**
 * rnbd_opening_close_id() - a CLOSE message
 * @sess:	the session
 * @id:		device id from the wire
 * @op:		the message
 *
 * An id that leads nowhere is closed already, which is what was asked for. An
 * id that was reserved is given free: its client has let go of it.
 *
 * Context: process context, does not wait.
 * Return: 0, @op is or will be answered.
 */
int rnbd_opening_close_id(struct rnbd_session *sess, u32 id, struct rtrs_op *op)
{
	struct rnbd_opening *o;

	xa_lock(&sess->devices);
	o = xa_load(&sess->devices, id);
	if (xa_is_value(o)) {
		__xa_erase(&sess->devices, id);
		o = NULL;
	}
	/* What is in the table is OPEN, so this claim cannot fail. */
	if (o && !claim_locked(o, false))
		o = NULL;
	xa_unlock(&sess->devices);

	if (o)
		rnbd_opening_close(o, op);
	else
		rtrs_op_respond(op, 0);
	return 0;
}

/**
 * rnbd_opening_close_all() - end all openings of a session and wait
 * @sess:	the session; no operation is outstanding
 *
 * Context: process context.
 */
void rnbd_opening_close_all(struct rnbd_session *sess)
{
	struct rnbd_opening *o;

	/* All at once, since each takes a grace period at least. */
	xa_lock(&sess->devices);
	list_for_each_entry(o, &sess->openings, session_entry)
		if (claim_locked(o, false))
			rnbd_opening_close(o, NULL);
	xa_unlock(&sess->devices);

	for (;;) {
		xa_lock(&sess->devices);
		o = list_first_entry_or_null(&sess->openings,
					     struct rnbd_opening,
					     session_entry);
		if (!o) {
			xa_unlock(&sess->devices);
			return;
		}
		kobject_get(&o->kobj);
		xa_unlock(&sess->devices);
		wait_for_completion(&o->closed);
		kobject_put(&o->kobj);
	}
}
