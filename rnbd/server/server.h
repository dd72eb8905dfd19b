/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The block server: what its rooms know of each other.
 *
 *   main.c	parameters, load and unload
 *   session.c	a client's session: its messages and its table of device ids
 *   opening.c	one device opened by one session: from OPEN to its end
 *   export.c	one block device and all its openings: paths, access rules
 *   io.c	a request on its way to the block layer and back
 *   sysfs.c	/sys/class/rnbd-server
 */
#ifndef RNBD_SERVER_H
#define RNBD_SERVER_H

#include <linux/bio.h>
#include <linux/completion.h>
#include <linux/kobject.h>
#include <linux/list.h>
#include <linux/percpu-refcount.h>
#include <linux/spinlock.h>
#include <linux/workqueue.h>
#include <linux/xarray.h>

#include "compat/bdev.h"
#include "rtrs/rtrs.h"
#include "rnbd/wire.h"
#include "rnbd/server/state.h"

/* Workers of one opening that may sleep in a submission at the same time */
#define RNBD_SUBMITTERS		4

/**
 * struct rnbd_session - one client
 * @name:	as the transport knows it
 * @version:	of the protocol, 0 until SESS_INFO came
 * @devices:	id -> opening. An opening is in it exactly while it is OPEN; a
 *		value entry reserves the id of one that was force-closed. Its
 *		lock guards @openings and every opening's state, too
 * @next_id:	where the search for a free id begins
 * @openings:	those that are OPEN or CLOSING
 * @open_lock:	guards @open_ops; innermost
 * @open_ops:	OPEN messages not yet looked at
 * @open_work:	handles them one by one
 * @io_wq:	where submissions of its openings may sleep: however many of its
 *		disks hang, those of other clients do not notice
 */
struct rnbd_session {
	char			name[RTRS_NAME_LEN];
	u8			version;
	struct xarray		devices;
	u32			next_id;
	struct list_head	openings;
	spinlock_t		open_lock;
	struct list_head	open_ops;
	struct work_struct	open_work;
	struct workqueue_struct	*io_wq;
};

/**
 * struct rnbd_export - one block device that at least one session has open
 * @kobj:	devices/<bdev>
 * @sessions:	devices/<bdev>/sessions
 * @bdev:	the device; kept alive by each of @openings
 * @writers:	openings that are not read-only
 * @openings:	all of them
 * @entry:	in the list of exports
 */
struct rnbd_export {
	struct kobject		kobj;
	struct kobject		*sessions;
	struct block_device	*bdev;
	unsigned int		writers;
	struct list_head	openings;
	struct list_head	entry;
};

/**
 * struct rnbd_submitter - a worker that takes over submissions that may sleep
 * @work:	runs while there is something in rnbd_opening.deferred
 * @opening:	whose
 */
struct rnbd_submitter {
	struct work_struct	work;
	struct rnbd_opening	*opening;
};

/**
 * struct rnbd_opening - one device opened by one session
 * @kobj:	devices/<bdev>/sessions/<session>; holds the memory
 * @session:	whose; valid until CLOSED
 * @export:	what; valid from attach to detach
 * @session_entry: in rnbd_session.openings
 * @export_entry: in rnbd_export.openings
 * @dev:	the block device, opened with this opening's mode
 * @nowait:	REQ_NOWAIT can be relied on for reads and writes
 * @mode:	access mode
 * @id:		device id on the wire
 * @state:	under the lock of rnbd_session.devices
 * @io:		one reference per operation on the device, killed by the claim
 * @close_work:	the end, once @io is gone
 * @close_op:	the CLOSE message to answer then, or NULL
 * @closed:	completed when the end is reached
 * @defer_lock:	guards @deferred and @busy; innermost
 * @deferred:	operations whose submission may sleep
 * @busy:	bit n: submitter n works or is about to
 * @submitter:	workers for @deferred
 * @name:	the device's name as the client sent it
 */
struct rnbd_opening {
	struct kobject		kobj;
	struct rnbd_session	*session;
	struct rnbd_export	*export;
	struct list_head	session_entry;
	struct list_head	export_entry;
	struct compat_bdev	dev;
	bool			nowait;
	enum rnbd_access_mode	mode;
	u32			id;
	enum rnbd_opening_state	state;
	struct percpu_ref	io;
	struct work_struct	close_work;
	struct rtrs_op		*close_op;
	struct completion	closed;

	spinlock_t		defer_lock;
	struct list_head	deferred;
	unsigned long		busy;
	struct rnbd_submitter	submitter[RNBD_SUBMITTERS];

	char			name[RNBD_NAME_LEN];
};

/**
 * struct rnbd_server_op - this module's part of an operation of the transport
 * @op:		the transport's part
 * @opening:	the device, referenced; for IO
 * @entry:	in rnbd_session.open_ops (OPEN) or rnbd_opening.deferred (IO)
 * @io:		the decoded message
 * @nowait:	@bio was submitted with REQ_NOWAIT
 * @bio:	on its way through the block layer
 */
struct rnbd_server_op {
	struct rtrs_op		*op;
	struct rnbd_opening	*opening;
	struct list_head	entry;
	struct rnbd_io		io;
	bool			nowait;
	struct bio		bio;
};

/*
 * The transport carries nine bits of errno; the few that do not fit mean
 * nothing outside the kernel either.
 */
static inline int rnbd_wire_errno(int err)
{
	return err < -511 ? -EIO : err;
}

/* The disk was removed: what its name leads to from now on is another one. */
static inline bool rnbd_opening_is_dead(const struct rnbd_opening *o)
{
	return compat_bdev_removed(o->dev.bdev);
}

const char *rnbd_access_name(enum rnbd_access_mode mode);

/* main.c */
extern char rnbd_search_path[PATH_MAX];
extern struct workqueue_struct *rnbd_admin_wq;
void rnbd_object_get(void);
void rnbd_object_put(void);

/* session.c */
int rnbd_session_connected(struct rtrs_server_session *rtrs, void **priv);
void rnbd_session_disconnected(void *priv);
int rnbd_session_request(void *priv, struct rtrs_op *op);

/* opening.c */
int rnbd_opening_create(struct rnbd_session *sess, const struct rnbd_open *req,
			struct rnbd_open_rsp *rsp);
struct rnbd_opening *rnbd_opening_get(struct rnbd_session *sess, u32 id);
struct rnbd_opening *rnbd_opening_get_by_name(struct rnbd_session *sess,
					      const char *name);
void rnbd_opening_put(struct rnbd_opening *o);
bool rnbd_opening_claim(struct rnbd_opening *o, bool keep_id);
void rnbd_opening_close(struct rnbd_opening *o, struct rtrs_op *op);
int rnbd_opening_close_id(struct rnbd_session *sess, u32 id,
			  struct rtrs_op *op);
void rnbd_opening_close_all(struct rnbd_session *sess);
void rnbd_opening_free(struct rnbd_opening *o);

/* export.c */
int rnbd_export_open(struct rnbd_opening *o);
void rnbd_export_describe(struct block_device *bdev, struct rnbd_open_rsp *rsp);
int rnbd_export_attach(struct rnbd_opening *o);
void rnbd_export_detach(struct rnbd_opening *o);
void rnbd_export_free(struct rnbd_export *e);

/* io.c */
int rnbd_io_request(struct rnbd_session *sess, struct rtrs_op *op);
void rnbd_io_init(struct rnbd_opening *o);
void rnbd_io_flush(struct rnbd_opening *o);

/* sysfs.c */
extern const struct kobj_type rnbd_opening_ktype;
extern const struct kobj_type rnbd_export_ktype;
int rnbd_sysfs_create(void);
void rnbd_sysfs_destroy(void);
struct kobject *rnbd_sysfs_devices(void);

#endif /* RNBD_SERVER_H */
