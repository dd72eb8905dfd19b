/* SPDX-License-Identifier: GPL-2.0 */
/*
 * rtrs-client, private structures.
 *
 *	rtrs_client (session) -> client_path -> client_conn
 *	            |                  |
 *	            +-> client_slot    +-> client_domain (per session and device)
 *
 * Locks, outermost first:
 *	rtrs_client.paths_lock	the list of paths (readers: RCU)
 *	client_path.op_lock	connect and teardown of a path, one at a time
 *	rtrs_client.event_lock	link events to the user
 *	rtrs_client.setup_lock	the session's constants, until they are set
 *	client_domain.lock	arming and refilling a domain
 *	client_conn.inv_lock	invalidations that wait for send-queue room
 *	client_path.lock	state of a path; any context
 */
#ifndef RTRS_CLIENT_H
#define RTRS_CLIENT_H

#include <linux/atomic.h>
#include <linux/device.h>
#include <linux/kobject.h>
#include <linux/list.h>
#include <linux/mutex.h>
#include <linux/rcupdate.h>
#include <linux/wait.h>
#include <linux/workqueue.h>
#include <linux/xarray.h>

#include "rtrs/core/core.h"
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
#define CLIENT_CM_TIMEOUT_MS	30000	/* address and route resolution */
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
 * @rx:		per slot: where the peer writes the data of small reads
 * @nr_rx_mr:	regions that cover @rx
 * @pieces_per_mr: pieces of @rx in each of them
 * @rx_mr:	the regions
 * @rx_desc:	their first address and key as requests use them
 * @mr:		per slot: region for a large read; NULL if it must be refilled
 * @keys:	rkey >> 8 of each @mr to its tag
 */
struct client_domain {
	struct rtrs_domain	base;
	struct rtrs_client	*clt;
	struct mutex		lock;
	bool			prepared;
	enum client_arena	arena;
	struct client_area	tx;
	struct client_area	rx;
	u32			nr_rx_mr;
	u32			pieces_per_mr;
	struct ib_mr		**rx_mr;
	struct rtrs_chunk_ref	*rx_desc;
	struct ib_mr		**mr;
	struct xarray		keys;
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
 * @id:		buffer id the tag uses
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
 * @inv_entry:	in client_conn.inv_wait
 * @front:	RDMA writes that carry the front of data with many pieces
 * @sge:	gather entries of @front and @wr
 */
struct client_slot {
	atomic_t		state;
	u16			tag;
	u16			id;
	bool			copied;
	bool			chained;
	u32			nr_dma;
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
 * @name:	for logs, fixed
 * @uuid:	identity on the wire
 * @nr_conns:	connections, the service connection included
 * @conn:	the connections
 * @lock:	@state, @connect_err, @hca_name, @hca_port, @addr.src
 * @state:	written by client_path_set_state() only
 * @connect_err: why the state became CLIENT_CONNECTING_ERR
 * @wait:	the connecting task waits here
 * @op_lock:	held over every connect and teardown; what follows is under it
 * @recovery:	takes a lost path down
 * @reconnect:	one attempt to connect again
 * @attempts:	of them since the path was last connected
 * @recon_cnt:	connect attempts ever
 * @known:	the server accepted this path once
 * @up:		counted in rtrs_client.nr_up
 * @in_sysfs:	@kobj was added
 * @dom:	its domain, while it has connections
 * @max_sge:	gather entries of a work request
 * @max_io_size: what the server said
 * @max_hdr_size: what the server said
 * @new_rkey:	the server hands out a key with every response
 * @chunk:	where requests are written, by buffer id
 * @info:	INFO exchange
 * @arm_cqe:	completion of the arena's registration
 * @armed:	it came
 * @hb:		heartbeat
 * @hca_name:	device of the last connect
 * @hca_port:	its port
 * @src:	source of the current attempt, with its port
 */
struct client_path {
	struct kobject		kobj;
	struct rtrs_client	*clt;
	struct list_head	entry;
	struct rtrs_addr	addr;
	char			name[RTRS_PATH_STRLEN];
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
	u16			recon_cnt;
	bool			known;
	bool			up;
	bool			in_sysfs;

	struct client_domain	*dom;
	u32			max_sge;
	u32			max_io_size;
	u32			max_hdr_size;
	bool			new_rkey;
	struct rtrs_chunk_ref	*chunk;
	struct client_info	info;
	struct ib_cqe		arm_cqe;
	bool			armed;
	struct rtrs_hb		hb;

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
 * @paths_lock:	@paths
 * @paths:	the paths in order of creation
 * @paths_kobj:	their directory
 * @closing:	no path may come back; set before the paths are closed
 * @known:	the server accepted a path of this session once
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
 * @by_id:	by buffer id; NULL: the id is a spare
 * @front:	storage of the slots
 * @sge:	storage of the slots
 * @domains:	one per device
 * @event_lock:	@opened, @nr_up; held over the user's link callback
 * @opened:	the user wants events
 * @nr_up:	connected paths
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

	struct mutex		paths_lock;
	struct list_head	paths;
	struct kobject		*paths_kobj;
	bool			closing;
	bool			known;

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
	struct ib_rdma_wr	*front;
	struct ib_sge		*sge;
	struct rtrs_domain_pool	domains;

	struct mutex		event_lock;
	bool			opened;
	unsigned int		nr_up;
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

#define path_log(level, path, fmt, ...)					\
	pr_##level("session %s, path %s: " fmt "\n", (path)->clt->name,	\
		   (path)->name, ##__VA_ARGS__)

/* main.c */
extern struct workqueue_struct *client_recovery_wq;
extern struct workqueue_struct *client_connect_wq;
extern unsigned int client_hb_interval_ms;
extern unsigned int client_hb_max_missed;
u32 client_queues(void);
u32 client_copybreak(bool write);

/* session.c */
int client_session_setup(struct rtrs_client *clt, struct client_path *path,
			 const struct rtrs_conn_rsp *rsp);
void client_path_up(struct client_path *path);
void client_path_down(struct client_path *path);

/* domain.c */
int client_domain_prepare(struct client_domain *dom);
int client_domain_arm(struct client_domain *dom, struct client_path *path);
void client_domain_disarm(struct client_domain *dom);
void client_domain_drop_mr(struct client_domain *dom, u32 tag);
int client_domain_refill(struct client_domain *dom);

/* path.c */
struct client_path *client_path_create(struct rtrs_client *clt,
				       const struct rtrs_addr *addr);
void client_path_free(struct client_path *path);
int client_path_open(struct client_path *path);
int client_path_reconnect(struct client_path *path);
void client_path_abandon(struct client_path *path);
void client_path_close(struct client_path *path);
bool client_path_set_state(struct client_path *path,
			   enum client_path_state new);
enum client_path_state client_path_get_state(struct client_path *path);
__printf(3, 4)
void client_path_error(struct client_path *path, int err, const char *fmt, ...);

/* connect.c */
int client_connect(struct client_path *path);
int client_wait(struct client_path *path, bool *flag, unsigned long deadline,
		const char *what);
void client_disconnect(struct client_path *path);
void client_release(struct client_path *path);

/* io.c */
extern const struct rtrs_conn_ops client_conn_ops;
void client_slot_init(struct client_slot *slot);
bool client_slot_respond(struct client_conn *conn, u32 id, int error);
bool client_slot_invalidated(struct client_conn *conn, u32 rkey);
void client_abort_requests(struct client_path *path);
int client_submit_on(struct client_path *path, struct rtrs_request *req,
		     bool last);

/* recv.c */
int client_recv_alloc(struct client_conn *conn);
void client_recv_free(struct client_conn *conn);
int client_recv_post_all(struct client_conn *conn);

/* sysfs.c */
extern struct class *client_class;
extern const struct attribute_group *client_session_groups[];
int client_sysfs_init(void);
void client_sysfs_exit(void);
int client_path_sysfs_add(struct client_path *path);
void client_path_sysfs_del(struct client_path *path);
void client_path_kobj_init(struct client_path *path);

#endif /* RTRS_CLIENT_H */
