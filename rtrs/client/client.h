/* SPDX-License-Identifier: GPL-2.0 */
/*
 * rtrs-client, private structures.
 *
 *	rtrs_client (session) -> client_path -> client_conn
 *	            |                  |
 *	            +-> client_slot    +-> client_domain (per session and device)
 *
 * Locks, outermost first:
 *	client_path.op_lock	connect and teardown of a path, one at a time
 *	rtrs_client.paths_lock	the list of paths (readers: RCU), their addresses
 *				and names
 *	rtrs_client.event_lock	link events to the user
 *	rtrs_client.setup_lock	the session's constants, until they are set
 *	client_domain.lock	arming and refilling a domain
 *	client_conn.inv_lock	invalidations that wait for send-queue room
 *	client_path.lock	state of a path; any context
 *	client_ids.lock		buffer ids after a loss; any context
 */
#ifndef RTRS_CLIENT_H
#define RTRS_CLIENT_H

#include <linux/atomic.h>
#include <linux/bitmap.h>
#include <linux/device.h>
#include <linux/kobject.h>
#include <linux/list.h>
#include <linux/mutex.h>
#include <linux/percpu.h>
#include <linux/rcupdate.h>
#include <linux/wait.h>
#include <linux/workqueue.h>
#include <linux/xarray.h>

#include "rtrs/core/core.h"
#include "rtrs/client/policy.h"
#include "rtrs/client/state.h"

#define CLIENT_MAX_TAGS		10240	/* slots we are willing to allocate */
#define CLIENT_MAX_USR		512	/* bytes of user message */
#define CLIENT_PAGE		SZ_4K	/* granule of registration */
#define CLIENT_MAX_COPY		SZ_64K	/* upper bound of both copybreaks */
/* Two work requests carry an unaligned 128 KiB of single pages and a header. */
#define CLIENT_SEND_SGE		17
#define CLIENT_ADMIN_SEND	1025	/* as every other client has */
#define CLIENT_ADMIN_RECV	1024
#define CLIENT_SQ_OPS		512	/* requests a send queue is sized for */
#define CLIENT_NO_ID		U16_MAX	/* a slot that must get an id first */
/* A neighbour that is silent is asked for three seconds, and then no more. */
#define CLIENT_ADDR_TIMEOUT_MS	5000
#define CLIENT_CM_TIMEOUT_MS	30000	/* route resolution */
/* A little more, so that the CM's verdict comes before ours */
#define CLIENT_WAIT_MS		31000

/**
 * struct client_area - pieces of memory, mapped once, cut into equal parts
 * @stride:	bytes from one part to the next
 * @per_piece:	parts of one piece
 * @piece_size:	bytes of one piece, whole pages
 * @nr_pieces:	pieces
 * @dir:	direction of the mapping
 * @virt:	where they are
 * @dma:	where the device sees them
 */
struct client_area {
	u32			stride;
	u32			per_piece;
	u32			piece_size;
	u32			nr_pieces;
	enum dma_data_direction	dir;
	void			**virt;
	u64			*dma;
};

int client_area_alloc(struct client_area *area, struct ib_device *dev,
		      u32 stride, u32 nr, enum dma_data_direction dir);
void client_area_free(struct client_area *area, struct ib_device *dev);

static inline void *client_area_virt(const struct client_area *area, u32 i)
{
	return area->virt[i / area->per_piece] +
	       i % area->per_piece * area->stride;
}

static inline u64 client_area_dma(const struct client_area *area, u32 i)
{
	return area->dma[i / area->per_piece] +
	       i % area->per_piece * area->stride;
}

enum client_arena {
	CLIENT_ARENA_FRESH,	/* keys allocated, never registered */
	CLIENT_ARENA_ARMING,	/* a path is having it registered */
	CLIENT_ARENA_ARMED,	/* registered, the peer may write */
	CLIENT_ARENA_DIRTY,	/* nobody knows; keys must be replaced */
};

/**
 * struct client_domain - a session's memory on one device
 * @base:	protection domain
 * @clt:	the session
 * @lock:	@prepared, @arena and the allocation of keys
 * @prepared:	everything below exists
 * @arena:	is @rx registered?
 * @tx:		per slot: copied write data, user message, header
 * @rx:		per slot: where the peer writes the data of reads up to @copy_read
 * @copy_read:	the session's, or all reads where registering them is not safe
 * @rx_span:	parts of @rx of each slot, one behind the other in one region
 * @nr_rx_mr:	regions that cover @rx
 * @pieces_per_mr: pieces of @rx in each of them
 * @rx_mr:	the regions
 * @rx_desc:	their first address and key as requests use them
 * @mr:		per slot: region for a large read; NULL if it must be refilled
 * @keys:	rkey >> 8 of each @mr to its tag
 * @refill:	allocates what is missing in @mr
 */
struct client_domain {
	struct rtrs_domain	base;
	struct rtrs_client	*clt;
	struct mutex		lock;
	bool			prepared;
	enum client_arena	arena;
	struct client_area	tx;
	struct client_area	rx;
	u32			copy_read;
	u32			rx_span;
	u32			nr_rx_mr;
	u32			pieces_per_mr;
	struct ib_mr		**rx_mr;
	struct rtrs_chunk_ref	*rx_desc;
	struct ib_mr		**mr;
	struct xarray		keys;
	struct delayed_work	refill;
};

extern const struct rtrs_domain_ops client_domain_ops;

/* Life of a request; the bits of client_slot.state. */
#define SLOT_BUSY	BIT(0)	/* a request owns the slot */
#define SLOT_QUEUED	BIT(1)	/* its submitter has let go of it */
#define SLOT_RESPONDED	BIT(2)	/* the server answered */
#define SLOT_SENT	BIT(3)	/* the device does not read user memory */
#define SLOT_INVALID	BIT(4)	/* the peer cannot write user memory */
#define SLOT_DONE	GENMASK(4, 0)
#define SLOT_ERR_SHIFT	8	/* the answer, a positive errno of 9 bits */
#define SLOT_GEN	BIT(17)	/* one more with every request */
#define SLOT_GEN_MASK	GENMASK(31, 17)

/**
 * struct client_slot - everything one request needs; see io.c
 * @state:	SLOT_* bits, answer and generation
 * @tag:	index of the slot
 * @id:		buffer id the tag uses, CLIENT_NO_ID if it was taken away
 * @claimed:	@id was taken, or has to be looked at when the request ends,
 *		under client_ids.lock; see ids.c
 * @seq:	number of the request in this slot, for tracing
 * @copied:	small: data goes through the domain's slot buffers
 * @chained:	may still be in the connection's chain when the answer comes
 * @nr_dma:	mapped entries of the request's scatter list, 0 = not mapped
 * @req:	the request
 * @conn:	connection it travels on; its path fixes the domain
 * @sent_cqe:	completion of @wr when the data was not copied
 * @inv_cqe:	completion of @inv
 * @wr:		the RDMA write that carries the immediate
 * @reg:	registration before it
 * @inv:	our own invalidation
 * @inv_entry:	in client_conn.inv_wait, or on its way to another path
 * @front:	RDMA writes that carry the front of data with many pieces
 * @sge:	gather entries of @front and @wr
 */
struct client_slot {
	atomic_t		state;
	u16			tag;
	u16			id;
	bool			copied;
	bool			chained;
	bool			claimed;
	u32			nr_dma;
	u32			seq;
	struct rtrs_request	*req;
	struct client_conn	*conn;
	struct ib_cqe		sent_cqe;
	struct ib_cqe		inv_cqe;
	struct ib_rdma_wr	wr;
	struct ib_reg_wr	reg;
	struct ib_send_wr	inv;
	struct list_head	inv_entry;
	struct ib_rdma_wr	*front;
	struct ib_sge		*sge;
} ____cacheline_aligned_in_smp;

enum client_id_place {
	CLIENT_ID_BOUND,	/* some slot has it */
	CLIENT_ID_FREE,
	CLIENT_ID_PARKED,	/* a dead path may still have an operation on it */
};

/**
 * struct client_id - what is known about a buffer id; see ids.c
 * @entry:	in client_ids.free or client_ids.answered
 * @parked_at:	jiffies
 * @holds:	paths on which a request with this id was not answered
 * @place:	where it is
 */
struct client_id {
	struct list_head	entry;
	unsigned long		parked_at;
	u16			holds;
	u8			place;
};

/**
 * struct client_hold - the ids a path has not given back
 * @entry:	in client_ids.holds
 * @path:	the path, NULL when it is gone
 * @addr:	its addresses, valid when it is gone
 * @bits:	the ids
 */
struct client_hold {
	struct list_head	entry;
	struct client_path	*path;
	struct rtrs_addr	addr;
	unsigned long		bits[];
};

/**
 * struct client_ids - buffer ids after a path was lost; see ids.c
 * @dynamic:	an id may be missing or taken away: look before it is used
 * @lock:	everything below
 * @id:		by id
 * @free:	ids nobody has
 * @answered:	parked ids whose last request was answered, oldest first
 * @holds:	what paths have not given back
 * @users:	teardowns that may be about to hold ids
 * @nr_free:	length of @free
 * @nr_missing:	slots without an id
 * @nr_bound_held: ids that a slot has and a dead path holds
 * @hand:	where the search for an idle slot goes on
 * @warned:	running out of ids was logged
 */
struct client_ids {
	bool			dynamic;

	spinlock_t		lock ____cacheline_aligned_in_smp;
	struct client_id	*id;
	struct list_head	free;
	struct list_head	answered;
	struct list_head	holds;
	u32			users;
	u32			nr_free;
	u32			nr_missing;
	u32			nr_bound_held;
	u32			hand;
	bool			warned;
};

/**
 * struct client_stats - what a CPU has counted for a path
 * @dir:	requests, and bytes of message and data, by direction
 * @failed_over: requests taken over from other paths
 * @migrated_to: answers that were expected on another CPU
 */
struct client_stats {
	struct {
		u64		count;
		u64		bytes;
	} dir[2];
	u64			failed_over;
	u32			migrated_to;
};

/**
 * struct client_rx - a receive that has a buffer for a key message
 * @cqe:	its completion
 * @conn:	its connection; the index in client_conn.rx is the buffer's
 */
struct client_rx {
	struct ib_cqe		cqe;
	struct client_conn	*conn;
};

/* How far the CM got with a connection */
enum client_phase {
	CLIENT_PHASE_NEW,
	CLIENT_PHASE_ADDR,
	CLIENT_PHASE_ROUTE,
	CLIENT_PHASE_ESTABLISHED,
	CLIENT_PHASE_GONE,	/* the server knows, or cannot be told */
};

/**
 * struct client_conn - a connection of a path
 * @base:	the queues
 * @path:	the path
 * @phase:	written by the CM's handler
 * @rsp:	the server's answer, valid when established
 * @nr_recv:	receives it works with
 * @rx_cqe:	completion of receives without a buffer
 * @rx:		receives with a buffer, NULL if the server sends no keys
 * @rx_buf:	their buffers
 * @polling:	bit 0: somebody polls
 * @cpu:	where its completions are expected
 * @inflight:	requests
 * @migrated:	answers that came on another CPU; written by its completions
 * @inv_lock:	@inv_wait and @inv_pending
 * @inv_wait:	slots whose invalidation waits for room in the send queue
 * @inv_pending: there are some, or somebody is just trying
 */
struct client_conn {
	struct rtrs_conn	base;
	struct client_path	*path;
	enum client_phase	phase;
	struct rtrs_conn_rsp	rsp;
	u32			nr_recv;
	struct ib_cqe		rx_cqe;
	struct client_rx	*rx;
	struct client_area	rx_buf;
	unsigned long		polling;
	u32			cpu;
	u32			migrated;
	atomic_t		inflight;
	spinlock_t		inv_lock;
	struct list_head	inv_wait;
	bool			inv_pending;
};

static inline struct client_conn *to_client_conn(struct rtrs_conn *conn)
{
	return container_of(conn, struct client_conn, base);
}

/**
 * struct client_info - INFO exchange of a path
 * @req:	INFO_REQ
 * @rsp:	room for INFO_RSP
 * @size:	of @rsp, bytes
 * @req_dma:	mapping of @req, valid while @mapped
 * @rsp_dma:	mapping of @rsp, valid while @mapped
 * @mapped:	device of the mappings
 * @tx_cqe:	completion of INFO_REQ
 * @rx_cqe:	completion of INFO_RSP
 * @waiting:	INFO_REQ was posted and INFO_RSP has not been accepted
 * @sent:	INFO_REQ was sent
 * @received:	INFO_RSP is there
 * @len:	its length
 *
 * The buffers live as long as the path.
 */
struct client_info {
	struct rtrs_wire_info_req *req;
	void			*rsp;
	size_t			size;
	u64			req_dma;
	u64			rsp_dma;
	struct ib_device	*mapped;
	struct ib_cqe		tx_cqe;
	struct ib_cqe		rx_cqe;
	bool			waiting;
	bool			sent;
	bool			received;
	u32			len;
};

/**
 * struct client_path - a path; see path.c
 * @kobj:	directory in sysfs, and the owner of this memory
 * @clt:	the session
 * @entry:	in rtrs_client.paths
 * @addr:	source and destination; the source is filled in by the first
 *		successful connect if none was given
 * @index:	number in the session, while in its list
 * @name:	for logs; one of @names, changes once, when the source is known
 * @uuid:	identity on the wire
 * @nr_conns:	connections, the service connection included
 * @conn:	the connections
 * @lock:	@state, @connect_err, @hca_name, @hca_port, @addr.src, @nr_up,
 *		@nr_failed
 * @state:	written by client_path_set_state() only
 * @connect_err: why the state became CLIENT_CONNECTING_ERR
 * @wait:	the connecting task waits here
 * @op_lock:	held over every connect and teardown; what follows is under it
 * @recovery:	takes a lost path down
 * @reconnect:	one attempt to connect again
 * @attempts:	of them since the path was last connected
 * @backoff:	how often the pause before the next one has been doubled
 * @refused:	the server has been asked to let the old incarnation go
 * @recon_cnt:	connect attempts ever
 * @first_conn:	the current attempt may create the session at the server
 * @losses:	rtrs_client.losses when the current attempt began
 * @twin:	the last attempt failed because another path has the addresses
 * @tried:	the first attempt is over
 * @first_err:	its result, valid when @tried
 * @first_twin:	@twin then
 * @logged_err:	what the last failed attempt that was logged said
 * @logged_at:	@attempts then
 * @up:		counted in rtrs_client.nr_up
 * @in_sysfs:	@kobj was added; under paths_lock
 * @nr_up:	times it was connected, less one
 * @nr_failed:	reconnect attempts that failed
 * @dom:	its domain, while it has connections
 * @max_sge:	gather entries of a work request
 * @max_io_size: what the server said
 * @max_hdr_size: what the server said
 * @new_rkey:	the server hands out a key with every response
 * @chunk:	where requests are written, by buffer id
 * @hold:	ids it has not given back
 * @stats:	counters
 * @info:	INFO exchange
 * @arm_cqe:	completion of the arena's registration
 * @armed:	it came
 * @hb:		heartbeat
 * @hb_sent:	when its last message went out, ns; 0: none is awaited
 * @latency:	round trip of the last one, ns; 0: not known
 * @hca_name:	device of the last connect
 * @hca_port:	its port
 * @src:	source of the current attempt, with its port
 */
struct client_path {
	struct kobject		kobj;
	struct rtrs_client	*clt;
	struct list_head	entry;
	struct rtrs_addr	addr;
	unsigned int		index;
	char			names[2][RTRS_PATH_STRLEN];
	const char		*name;
	u8			uuid[RTRS_UUID_LEN];
	u32			nr_conns;
	struct client_conn	**conn;

	spinlock_t		lock;
	enum client_path_state	state;
	int			connect_err;
	wait_queue_head_t	wait;

	struct mutex		op_lock;
	struct work_struct	recovery;
	struct delayed_work	reconnect;
	unsigned int		attempts;
	unsigned int		backoff;
	bool			refused;
	u16			recon_cnt;
	bool			first_conn;
	unsigned int		losses;
	bool			twin;
	bool			tried;
	int			first_err;
	bool			first_twin;
	int			logged_err;
	unsigned int		logged_at;
	bool			up;
	bool			in_sysfs;
	int			nr_up;
	int			nr_failed;

	struct client_domain	*dom;
	u32			max_sge;
	u32			max_io_size;
	u32			max_hdr_size;
	bool			new_rkey;
	struct rtrs_chunk_ref	*chunk;
	struct client_hold	*hold;
	struct client_stats __percpu *stats;
	struct client_info	info;
	struct ib_cqe		arm_cqe;
	bool			armed;
	struct rtrs_hb		hb;
	s64			hb_sent;
	s64			latency;

	char			hca_name[IB_DEVICE_NAME_MAX];
	u32			hca_port;
	struct sockaddr_storage	src;
};

/**
 * struct rtrs_client - a session; see session.c
 * @dev:	directory in sysfs, and the owner of this memory
 * @entry:	in the module's list of sessions
 * @name:	session name
 * @uuid:	identity on the wire
 * @cfg:	as given at open; @cfg.path is not kept
 * @max_reconnects: attempts until a path is given up, -1 = no limit
 * @nr_queues:	interrupt-driven I/O connections of each path
 * @nr_poll_queues: polled ones behind them
 * @copy_write:	writes up to so many bytes are copied
 * @copy_read:	reads up to so many bytes are copied
 * @policy:	how a path is chosen
 * @turn:	round-robin counters
 * @paths_lock:	@paths, @nr_paths, @indices, @nr_changes, @complete, and
 *		addresses, names and directories of the paths
 * @paths:	the paths in order of creation
 * @nr_paths:	length of @paths
 * @indices:	which client_path.index are taken
 * @nr_changes:	operations under way that add or remove a path
 * @complete:	open has succeeded: paths may be added and removed
 * @paths_kobj:	their directory
 * @changed:	who waits for @nr_changes or for first attempts waits here
 * @closing:	no path may come back; set before the paths are closed
 * @setup_lock:	until @ready
 * @ready:	the constants below are set
 * @depth:	chunks of the server
 * @nr_tags:	slots
 * @nr_ids:	buffer ids in use and spare, at most @depth
 * @max_io_size: bytes of data of one request
 * @max_hdr_size: the server's limit for message and header
 * @max_segments: scatter entries of one request
 * @max_sge:	gather entries of a work request the slots are made for
 * @slot:	by tag
 * @by_id:	by buffer id; NULL: no slot has it
 * @ids:	ids after a loss
 * @front:	storage of the slots
 * @sge:	storage of the slots
 * @domains:	one per device
 * @event_lock:	@opened, @nr_up, @losses; held over the user's link callback, and when
 *		a path becomes CONNECTED
 * @opened:	the user wants events
 * @nr_up:	connected paths
 * @losses:	times that a path went with requests not answered
 */
struct rtrs_client {
	struct device		dev;
	struct list_head	entry;
	char			name[RTRS_NAME_LEN];
	u8			uuid[RTRS_UUID_LEN];
	struct rtrs_client_config cfg;
	int			max_reconnects;
	u32			nr_queues;
	u32			nr_poll_queues;
	u32			copy_write;
	u32			copy_read;
	enum client_policy	policy;
	u32 __percpu		*turn;

	struct mutex		paths_lock;
	struct list_head	paths;
	unsigned int		nr_paths;
	DECLARE_BITMAP(indices, RTRS_MAX_PATHS);
	unsigned int		nr_changes;
	bool			complete;
	struct kobject		*paths_kobj;
	wait_queue_head_t	changed;
	bool			closing;

	struct mutex		setup_lock;
	bool			ready;
	u32			depth;
	u32			nr_tags;
	u32			nr_ids;
	u32			max_io_size;
	u32			max_hdr_size;
	u32			max_segments;
	u32			max_sge;
	struct client_slot	*slot;
	struct client_slot	**by_id;
	struct client_ids	ids;
	struct ib_rdma_wr	*front;
	struct ib_sge		*sge;
	struct rtrs_domain_pool	domains;

	struct mutex		event_lock;
	bool			opened;
	unsigned int		nr_up;
	unsigned int		losses;
};

/* The connection a queue's requests travel on; @queue was checked. */
static inline struct client_conn *client_conn_of(struct client_path *path,
						 u16 queue)
{
	return path->conn[queue == RTRS_QUEUE_ADMIN ? 0 : 1U + queue];
}

/* Are the session's constants set? */
static inline bool client_ready(const struct rtrs_client *clt)
{
	/* Pairs with the release in set_constants(). */
	return smp_load_acquire(&clt->ready);
}

static inline struct rtrs_client *to_client(struct device *dev)
{
	return container_of(dev, struct rtrs_client, dev);
}

static inline const char *client_path_name(const struct client_path *path)
{
	/* Pairs with the release in client_path_settle(). */
	return smp_load_acquire(&path->name);
}

#define path_log(level, path, fmt, ...)					\
	pr_##level("session %s, path %s: " fmt "\n", (path)->clt->name,	\
		   client_path_name(path), ##__VA_ARGS__)

/* main.c */
extern struct workqueue_struct *client_recovery_wq;
extern struct workqueue_struct *client_connect_wq;
extern struct workqueue_struct *client_refill_wq;
extern unsigned int client_hb_interval_ms;
extern unsigned int client_hb_max_missed;
void client_object_get(void);
void client_object_put(void);
u32 client_queues(void);
u32 client_copybreak(bool write);

/* session.c */
int client_session_setup(struct rtrs_client *clt, struct client_path *path,
			 const struct rtrs_conn_rsp *rsp);
int client_path_up(struct client_path *path);
void client_path_down(struct client_path *path);
void client_session_loss(struct rtrs_client *clt);

/* paths.c */
int client_paths_open(struct rtrs_client *clt,
		      const struct rtrs_client_config *cfg);
void client_paths_close(struct rtrs_client *clt);
int client_paths_add(struct rtrs_client *clt, const struct rtrs_addr *addr);
int client_paths_begin(struct rtrs_client *clt);
void client_paths_end(struct rtrs_client *clt);
void client_paths_remove(struct client_path *path);
bool client_paths_twin(struct client_path *path,
		       const struct sockaddr_storage *src);
int client_path_settle(struct client_path *path);

/* domain.c */
int client_domain_prepare(struct client_domain *dom);
int client_domain_arm(struct client_domain *dom, struct client_path *path);
void client_domain_disarm(struct client_domain *dom);
void client_domain_drop_mr(struct client_domain *dom, u32 tag);
int client_domain_refill(struct client_domain *dom);
void client_domain_refill_soon(struct client_domain *dom, bool now);

/* path.c */
struct client_path *client_path_create(struct rtrs_client *clt,
				       const struct rtrs_addr *addr);
void client_path_free(struct client_path *path);
void client_path_start(struct client_path *path);
int client_path_open(struct client_path *path);
int client_path_reconnect(struct client_path *path);
void client_path_abandon(struct client_path *path);
void client_path_close(struct client_path *path);
bool client_path_set_state(struct client_path *path,
			   enum client_path_state new);
enum client_path_state client_path_get_state(struct client_path *path);
__printf(3, 4)
void client_path_error(struct client_path *path, int err, const char *fmt, ...);
void client_path_hb_ack(struct client_path *path);
void client_path_hb_first(struct client_path *path);

/* connect.c */
int client_connect(struct client_path *path);
int client_wait(struct client_path *path, bool *flag, unsigned long deadline,
		const char *what);
void client_disconnect(struct client_path *path);
void client_await_farewell(struct client_path *path);
void client_release(struct client_path *path);

/* io.c */
extern const struct rtrs_conn_ops client_conn_ops;
void client_slot_init(struct client_slot *slot);
void client_slot_unmap(struct client_slot *slot);
void client_slot_end(struct client_slot *slot, int error, bool answered);
bool client_slot_respond(struct client_conn *conn, u32 id, int error);
bool client_slot_invalidated(struct client_conn *conn, u32 rkey);
int client_submit_on(struct client_path *path, struct rtrs_request *req,
		     bool last);

static inline int client_slot_error(u32 state)
{
	return -(int)((state & ~SLOT_GEN_MASK) >> SLOT_ERR_SHIFT);
}

/* ids.c */
int client_ids_alloc(struct rtrs_client *clt);
void client_ids_free(struct rtrs_client *clt);
int client_ids_add_path(struct client_path *path);
void client_ids_del_path(struct client_path *path);
void client_ids_enter(struct rtrs_client *clt);
void client_ids_leave(struct rtrs_client *clt);
void client_ids_hold(struct client_path *path, struct client_slot *slot);
void client_ids_release(struct client_path *path);
bool client_id_claim(struct rtrs_client *clt, struct client_slot *slot);
void client_id_unclaim(struct rtrs_client *clt, struct client_slot *slot);
void client_id_done(struct rtrs_client *clt, struct client_slot *slot,
		    bool answered);

/* May ids be missing?  Under rcu_read_lock(). */
static inline bool client_ids_dynamic(const struct rtrs_client *clt)
{
	/* Pairs with the release in settle(). */
	return smp_load_acquire(&clt->ids.dynamic);
}

/* failover.c */
void client_abort_requests(struct client_path *path);

/* multipath.c */
bool client_any_connected(struct rtrs_client *clt,
			  const struct client_path *except);
int client_conn_poll(struct client_conn *conn);
int client_submit_any(struct rtrs_client *clt, struct rtrs_request *req,
		      bool last, struct client_path *from);

/* recv.c */
int client_recv_alloc(struct client_conn *conn);
void client_recv_free(struct client_conn *conn);
int client_recv_post_all(struct client_conn *conn);

/* stats.c */
extern const struct attribute_group client_stats_group;
u32 client_stats_inflight(const struct client_path *path);

/* sysfs.c */
extern struct class *client_class;
extern const struct attribute_group *client_session_groups[];
int client_sysfs_init(void);
void client_sysfs_exit(void);

/* sysfs_path.c */
int client_path_sysfs_add(struct client_path *path);
int client_path_sysfs_rename(struct client_path *path, const char *name);
void client_path_sysfs_del(struct client_path *path);
void client_path_kobj_init(struct client_path *path);
int client_path_dirname(const struct client_path *path, char *buf, size_t size);

#endif /* RTRS_CLIENT_H */
