/* SPDX-License-Identifier: GPL-2.0 */
/*
 * RNBD client: what its files share.
 *
 *   options.c	the text written to map_device
 *   map.c	map and unmap, the only two ways a device comes and goes
 *   session.c	a connection to one server, shared by the devices mapped from it
 *   msg.c	SESS_INFO, OPEN, CLOSE
 *   device.c	states of a device: opened, closed by a lost link, re-opened
 *   disk.c	the block device: limits, requests, completion
 *   wait.c	I/O without an answer: how long it waits for what
 *   sysfs.c	the ctl device and the rnbd directory of a disk
 *   main.c	the module
 *
 * Locks, outermost first: sessions_lock (session.c), rnbd_session.lock,
 * rnbd_dev.lock.  None of them is held while waiting for an answer, for I/O or
 * for sysfs.
 */
#ifndef RNBD_CLIENT_H
#define RNBD_CLIENT_H

#undef pr_fmt
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/blk-mq.h>
#include <linux/kref.h>
#include <linux/list.h>
#include <linux/mutex.h>
#include <linux/printk.h>
#include <linux/wait.h>
#include <linux/workqueue.h>

#include "compat/block.h"
#include "rnbd/client/options.h"
#include "rnbd/client/state.h"
#include "rnbd/wire.h"
#include "rtrs/rtrs.h"

#define RNBD_MINORS		64	/* of one disk: itself and 63 partitions */
#define RNBD_MAX_DEVICES	16384

/* Seconds an answer may take before the one who waits gives up */
#define RNBD_OPEN_TIMEOUT	60
#define RNBD_CLOSE_TIMEOUT	30

/* The same for requests that a map or unmap waits for */
#define RNBD_SCAN_TIMEOUT	60
#define RNBD_DRAIN_TIMEOUT	30

/* Seconds between attempts to re-open a device while its session is up */
#define RNBD_REOPEN_MIN		1
#define RNBD_REOPEN_MAX		30

/* Until a request without a path is tried again: the session hears meanwhile */
#define RNBD_REQUEUE_MS		100

/* A request and its scatter list are allocated in one piece of at most 64 KiB */
#define RNBD_MAX_SEGMENTS	512U

/* Longest pause between two reconnect attempts of a path, seconds */
#define RNBD_RECONNECT_DELAY	30

/**
 * enum rnbd_session_state - life of a session
 * @RNBD_SESS_CREATING:	being connected by the first map
 * @RNBD_SESS_READY:	usable
 * @RNBD_SESS_DYING:	its last device is gone, being closed
 * @RNBD_SESS_DEAD:	off the list (closed, or never came up)
 */
enum rnbd_session_state {
	RNBD_SESS_CREATING,
	RNBD_SESS_READY,
	RNBD_SESS_DYING,
	RNBD_SESS_DEAD,
};

/**
 * struct rnbd_session - a session with one server
 * @ref:	of the memory only: devices on @devices, messages in flight,
 *		waiters
 * @entry:	in the list of sessions; sessions_lock
 * @users:	mapped devices and map operations; sessions_lock
 * @state:	written under sessions_lock
 * @error:	why it never became ready
 * @name:	its name
 * @clt:	transport; used only under RCU after looking at @shut
 * @shut:	the transport is being closed, nothing may be submitted any more
 * @lim:	what the transport can do
 * @nr_poll_queues: as asked for by the first map
 * @tag_set:	tags of all devices
 * @anchor_q:	a queue that stays in @tag_set: otherwise the block layer would
 *		freeze the first disk when a second comes, and wait for its I/O
 * @nr_msg_tags: the last tags of @lim, not in @tag_set but for messages
 * @msg_tags:	those of them in use
 * @lock:	@devices, @epoch, @link_up
 * @devices:	mapped devices and those that still wait for an answer
 * @epoch:	counts lost links: answers of an earlier one mean nothing
 * @link_up:	between a link-up and a link-down event
 * @ver:	protocol version of the session
 * @wait:	everybody who waits for anything of this session
 * @events:	counts tags given back and devices gone, for those waiters
 * @link_work:	after a link-up event
 * @shutdown_work: closes the transport at module unload
 */
struct rnbd_session {
	struct kref		ref;
	struct list_head	entry;
	unsigned int		users;
	enum rnbd_session_state	state;
	int			error;
	char			name[RTRS_NAME_LEN];

	struct rtrs_client	*clt;
	bool			shut;
	struct rtrs_client_limits lim;
	unsigned int		nr_poll_queues;
	struct blk_mq_tag_set	tag_set;
	struct request_queue	*anchor_q;
	unsigned int		nr_msg_tags;
	unsigned long		msg_tags;

	struct mutex		lock;
	struct list_head	devices;
	u32			epoch;
	bool			link_up;
	u8			ver;

	wait_queue_head_t	wait;
	atomic_t		events;
	struct work_struct	link_work;
	struct work_struct	shutdown_work;
};

/**
 * struct rnbd_dev - a mapped device
 * @ref:	of the memory: list membership, the disk
 * @sess:	valid while on its list
 * @entry:	in the session's devices; session lock
 * @holds:	reasons to stay on the list: the mapping, messages without an
 *		answer; session lock
 * @lock:	everything below up to @reopen_error, but for the works
 * @state:	read without the lock by the request path
 * @id:		the server's handle; valid in state open
 * @epoch:	the session's epoch that @id belongs to
 * @openers:	opens of the block device
 * @announced:	map has succeeded: disk and link exist
 * @geom:	what the limits of the disk were made of
 * @fail_tmo:	seconds that I/O waits for the session to return; written under
 *		the lock
 * @waiting:	it does so now: the queue is quiesced; written under the lock
 * @closed_at:	jiffies when it began to
 * @wait_end:	ends it
 * @reap:	ends requests that a map or unmap waits for
 * @reopen_delay: seconds until the next attempt
 * @reopen_error: of the last attempt
 * @reopen:	runs while the state is closed
 * @disk:	the block device
 * @index:	N of rnbdN
 * @mode:	access mode
 * @nr_poll_queues: as asked for
 * @link:	name of the link in ctl/devices/
 * @linked:	the link exists and is ours
 * @name:	name below the server's search path
 */
struct rnbd_dev {
	struct kref		ref;
	struct rnbd_session	*sess;
	struct list_head	entry;
	unsigned int		holds;

	struct mutex		lock;
	enum rnbd_dev_state	state;
	u32			id;
	u32			epoch;
	unsigned int		openers;
	bool			announced;
	struct rnbd_open_rsp	geom;
	unsigned int		fail_tmo;
	bool			waiting;
	unsigned long		closed_at;
	struct delayed_work	wait_end;
	struct delayed_work	reap;
	unsigned int		reopen_delay;
	int			reopen_error;
	struct delayed_work	reopen;

	struct gendisk		*disk;
	int			index;
	enum rnbd_access_mode	mode;
	unsigned int		nr_poll_queues;
	char			*link;
	bool			linked;
	char			name[RNBD_NAME_LEN];
};

/* Not where the session may be gone: open and release of the block device. */
#define rnbd_err(dev, fmt, ...) \
	pr_err("%s@%s: " fmt, (dev)->name, (dev)->sess->name, ##__VA_ARGS__)
#define rnbd_info(dev, fmt, ...) \
	pr_info("%s@%s: " fmt, (dev)->name, (dev)->sess->name, ##__VA_ARGS__)

/* main.c */
extern struct workqueue_struct *rnbd_wq;
extern struct workqueue_struct *rnbd_timer_wq;
extern int rnbd_major;
void rnbd_object_get(void);
void rnbd_object_put(void);

/* session.c */
struct rnbd_session *rnbd_session_get(const struct rnbd_map_options *opts,
				      const struct rtrs_addr *addr);
void rnbd_session_put(struct rnbd_session *sess);
void rnbd_session_unref(struct rnbd_session *sess);
void rnbd_session_event(struct rnbd_session *sess);
void rnbd_sessions_shutdown(void);
struct rnbd_dev *rnbd_sessions_any_dev(void);

/* msg.c */
int rnbd_send_sess_info(struct rnbd_session *sess, bool wait);
int rnbd_send_open(struct rnbd_dev *dev, struct rnbd_open_rsp *rsp, u32 *epoch);
void rnbd_send_close(struct rnbd_dev *dev, u32 id, u32 epoch);

/* device.c */
struct rnbd_dev *rnbd_dev_create(struct rnbd_session *sess,
				 const struct rnbd_map_options *opts);
void rnbd_dev_put(struct rnbd_dev *dev);
void rnbd_dev_hold(struct rnbd_dev *dev);
void rnbd_dev_unhold(struct rnbd_dev *dev);
const char *rnbd_dev_state_name(const struct rnbd_dev *dev);
bool rnbd_dev_set_state(struct rnbd_dev *dev, enum rnbd_dev_state state);
int rnbd_dev_opened(struct rnbd_dev *dev, const struct rnbd_open_rsp *rsp,
		    u32 epoch);
int rnbd_dev_reopen(struct rnbd_dev *dev);
void rnbd_dev_late_open(struct rnbd_dev *dev, const struct rnbd_open_rsp *rsp,
			u32 epoch);
void rnbd_dev_link_down(struct rnbd_dev *dev);
void rnbd_dev_link_up(struct rnbd_dev *dev);
void rnbd_dev_retire(struct rnbd_dev *dev);
void rnbd_dev_close(struct rnbd_dev *dev, u32 id, u32 epoch);
void rnbd_dev_announce(struct rnbd_dev *dev);

/* wait.c */
void rnbd_wait_init(struct rnbd_dev *dev);
void rnbd_wait_begin(struct rnbd_dev *dev);
void rnbd_wait_end(struct rnbd_dev *dev);
int rnbd_wait_check(const struct rnbd_session *sess, unsigned int secs);
int rnbd_wait_set(struct rnbd_dev *dev, unsigned int secs);
bool rnbd_may_wait(const struct rnbd_dev *dev);
void rnbd_reap_begin(struct rnbd_dev *dev, unsigned int secs);
void rnbd_reap_end(struct rnbd_dev *dev);

/* disk.c */
void rnbd_disk_expire(struct request *rq, enum rtrs_expire how);
int rnbd_tag_set_init(struct rnbd_session *sess);
int rnbd_disk_check(struct rnbd_dev *dev, const struct rnbd_open_rsp *rsp);
int rnbd_disk_alloc(struct rnbd_dev *dev, const struct rnbd_open_rsp *rsp);
void rnbd_disk_drop(struct rnbd_dev *dev);
int rnbd_disk_add(struct rnbd_dev *dev);
sector_t rnbd_disk_sectors(const struct rnbd_open_rsp *rsp);

/* map.c */
int rnbd_map(const struct rnbd_map_options *opts);
int rnbd_unmap_begin(struct rnbd_dev *dev, bool force, bool *was_open);
void rnbd_unmap_finish(struct rnbd_dev *dev, bool was_open);
void rnbd_unmap_all(void);

/* sysfs.c */
extern const struct attribute_group *rnbd_disk_groups[];
int rnbd_sysfs_init(void);
void rnbd_sysfs_stop_mapping(void);
void rnbd_sysfs_exit(void);
int rnbd_sysfs_link(struct rnbd_dev *dev);
void rnbd_sysfs_unlink(struct rnbd_dev *dev);

#endif /* RNBD_CLIENT_H */
