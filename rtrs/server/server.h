/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Between the files of rtrs-server.ko only.
 *
 * Who owns whom: server, session, path, connection; and the session its
 * operations and buffers.  A child holds a counted reference to its parent.
 *
 * Locks, outermost first:
 *   path.setup      one connection is being accepted, or INFO processed
 *   server.lock     sessions, their lists of paths, names, devices, claims
 *   session.build   the session's memory is being allocated
 *   session.lock    how many paths are up, the user's session, the directory
 *   domains.lock    DMA mappings (of struct rtrs_domain_pool)
 *   path.lock       the path's state, what is held            (spin, irq)
 *   session.fence_lock  paths that wait for the fence         (spin, irq)
 *   session.spare_lock  operations that wait for a spare      (spin, irq)
 *   conn.park_lock  what waits for room in the send queue     (spin, irq)
 *   op.lock         who uses a buffer id                      (spin, irq)
 * Of the mutexes below path.setup only one is held at a time, but for
 * domains.lock inside session.build; of the spinlocks only one as well.
 */
#ifndef RTRS_SERVER_H
#define RTRS_SERVER_H

#include <linux/atomic.h>
#include <linux/completion.h>
#include <linux/device.h>
#include <linux/dma-direction.h>
#include <linux/kobject.h>
#include <linux/percpu-refcount.h>
#include <linux/wait.h>

#include "rtrs/core/core.h"
#include "rtrs/server/state.h"

/* Bytes of a chunk that are not for data, on every page size */
#define SERVER_HDR_SIZE		RTRS_MIN_HDR
/* Page size of our memory regions, on every page size of the host */
#define SERVER_MR_PAGE		4096U
/* Reads and writes up to this size never touch the chunk's registration. */
#define SERVER_SMALL_SIZE	8192U
/* The largest chunk that can be set, bytes */
#define SERVER_MAX_CHUNK	(4U << 20)
/* Scatter entries of one work request */
#define SERVER_MAX_SGE		8
/* A path whose handshake makes no progress is given up ... */
#define SERVER_HANDSHAKE_MS	30000
/* ... and one that takes so long for each 1024 connections, until INFO_REQ. */
#define SERVER_CONNECT_MS	120000
/* A new path waits so long for the operations of lost ones; clients wait 30 s. */
#define SERVER_FENCE_MS		25000
/* ... and so long for those that use a chunk whose key is void. */
#define SERVER_VOID_MS		2000
/* A connection request waits so long for the path it replaces. */
#define SERVER_TAKEOVER_MS	2000
/*
 * What the service connection can have under way: heartbeats and a few requests
 * that are not I/O.  With those for draining they make powers of two, to which
 * devices round their rings up.
 */
#define SERVICE_SEND_WR		254U
#define SERVICE_RECV_WR		509U

/**
 * struct server_config - what the module parameters ask for
 * @depth:	chunks of a session
 * @chunk_size:	bytes of a chunk
 * @always_invalidate: the user never sees memory that a client can write to
 * @small_size:	bytes of the small private buffer of each chunk, 0: none
 * @nr_spares:	large private buffers a session begins with
 */
struct server_config {
	u32	depth;
	u32	chunk_size;
	bool	always_invalidate;
	u32	small_size;
	u32	nr_spares;
};

extern struct server_config server_config;

/* Parameters that may change while we run */
extern unsigned int server_max_sessions;
extern unsigned int server_max_paths;
extern unsigned int server_max_conns;
extern unsigned int server_hb_interval_ms;
extern unsigned int server_hb_max_missed;

/* Handshake timers; operations that waited for an earlier one or for memory */
extern struct workqueue_struct *server_wq;
/* Connection requests, listening: allocate, but never wait for anybody */
extern struct workqueue_struct *server_connect_wq;
/* INFO processing: the same, for those who have got that far */
extern struct workqueue_struct *server_info_wq;
/* Closing of paths: may wait long for the user */
extern struct workqueue_struct *server_path_wq;

/**
 * struct rtrs_server - the listening user
 * @ops:	its callbacks
 * @port:	where it listens
 * @lock:	everything below but @listen_*
 * @sessions:	all of them
 * @devices:	RDMA devices that may be used
 * @nr_sessions: how many
 * @closing:	no new connections
 * @claimed:	bytes that clients have claimed
 * @knocks:	connection requests being worked on
 * @listen_lock: serialises what is below
 * @listen_ip:	listener for IPv4 and IPv6
 * @listen_ib:	listener for GIDs
 * @listen_users: devices that want listeners
 * @listen_err:	why there are none
 * @listen_work: tries again
 * @client:	our registration for devices
 */
struct rtrs_server {
	struct rtrs_server_ops	ops;
	u16			port;
	struct mutex		lock;
	struct list_head	sessions;
	struct list_head	devices;
	unsigned int		nr_sessions;
	bool			closing;
	atomic64_t		claimed;
	atomic_t		knocks;

	struct mutex		listen_lock;
	struct rdma_cm_id	*listen_ip;
	struct rdma_cm_id	*listen_ib;
	unsigned int		listen_users;
	int			listen_err;
	struct delayed_work	listen_work;
	struct ib_client	client;
};

/**
 * struct server_dev - an RDMA device, from its arrival to its removal
 * @dev:	the device
 * @entry:	in rtrs_server.devices while paths may be created
 * @ref:	one for the arrival, one per path
 * @unused:	the last reference is gone
 */
struct server_dev {
	struct ib_device	*dev;
	struct list_head	entry;
	struct kref		ref;
	struct completion	unused;
};

/**
 * struct server_buf - memory in as few physically contiguous pieces as we got
 * @ext:	the pieces
 * @nr_ext:	how many
 * @first:	index of the first one's DMA address in server_domain.dma
 * @dir:	what devices do with it
 */
struct server_buf {
	struct bio_vec		*ext;
	u32			nr_ext;
	u32			first;
	enum dma_data_direction	dir;
};

/**
 * struct server_spare - a large private buffer
 * @cqe:	the device has sent its contents
 * @sess:	owner
 * @path:	whose operation uses it
 * @conn:	connection that sends it
 * @buf:	the memory
 */
struct server_spare {
	struct ib_cqe			cqe;
	struct rtrs_server_session	*sess;
	struct server_path		*path;
	struct server_conn		*conn;
	struct server_buf		*buf;
};

/**
 * struct server_dir - a session's directory in sysfs
 * @dev:	class device
 * @paths:	its subdirectory
 * @released:	nobody refers to @dev any more
 * @users:	paths that have a directory in @paths
 */
struct server_dir {
	struct device		dev;
	struct kobject		*paths;
	struct completion	released;
	unsigned int		users;
};

/**
 * struct rtrs_server_session - what one client has here
 * @srv:	the listening user
 * @ref:	one per path, one for each look-up
 * @entry:	in rtrs_server.sessions, while it has paths
 * @paths:	its paths, under rtrs_server.lock
 * @nr_paths:	how many
 * @uuid:	identity
 * @name:	empty until INFO_REQ, then constant; under rtrs_server.lock
 * @claimed:	bytes it counts for, see rtrs_server.claimed
 * @lock:	@nr_up, @nr_keys, @many, @dir, and the user's callbacks
 * @nr_up:	paths whose client may send requests
 * @nr_keys:	paths that have keys for the chunks, or are about to get them
 * @many:	there were several of them at a time; stays set
 * @priv:	the user's session, valid while @nr_up
 * @dir:	directory in sysfs
 * @depth:	chunks
 * @chunk_size:	bytes of a chunk
 * @max_io_size: bytes of data in a chunk
 * @always_invalidate: mode
 * @small_size:	bytes of a small private buffer, 0 if there are none
 * @first_spares: large private buffers to begin with
 * @max_spares:	large private buffers there can be
 * @nr_spares:	large private buffers there are; changed by @build or @grow_work
 * @spare:	the large private buffers
 * @spare_used:	bitmap of @spare; those that do not exist are in use
 * @spare_lock:	changes of @spare_queue
 * @spare_queue: operations that wait for a spare
 * @grow_work:	makes more of them
 * @build:	@built, and who allocates what follows
 * @built:	the memory is there
 * @buf:	all memory: chunks, small buffers, key messages, large buffers
 * @alt:	second chunks of some ids; NULL until the first one
 * @nr_bufs:	how many
 * @nr_ext:	pieces of all
 * @dma_room:	pieces there can be
 * @max_ext:	the most pieces of any that holds data
 * @msgs:	the buffer of the key messages
 * @domains:	its protection domains; their lock also serialises DMA mapping
 * @ops:	operations, one per buffer id
 * @op_size:	bytes from one to the next
 * @op_usr:	offset of the user message's copy in an operation
 * @op_priv:	offset of the user's memory in an operation
 * @fence_lock:	the next two
 * @fenced:	paths that wait until operations of lost paths have ended
 * @nr_fenced:	how many
 */
struct rtrs_server_session {
	struct rtrs_server	*srv;
	struct kref		ref;
	struct list_head	entry;
	struct list_head	paths;
	unsigned int		nr_paths;
	u8			uuid[RTRS_UUID_LEN];
	char			name[RTRS_NAME_LEN];
	u64			claimed;

	struct mutex		lock;
	unsigned int		nr_up;
	unsigned int		nr_keys;
	bool			many;
	void			*priv;
	struct server_dir	*dir;

	u32			depth;
	u32			chunk_size;
	u32			max_io_size;
	bool			always_invalidate;
	u32			small_size;
	u32			first_spares;
	u32			max_spares;
	u32			nr_spares;
	struct server_spare	*spare;
	unsigned long		*spare_used;
	spinlock_t		spare_lock;
	struct list_head	spare_queue;
	struct work_struct	grow_work;

	struct mutex		build;
	bool			built;
	struct server_buf	*buf;
	struct server_buf	**alt;
	u32			nr_bufs;
	u32			nr_ext;
	u32			dma_room;
	u32			max_ext;
	struct server_buf	*msgs;
	struct rtrs_domain_pool	domains;

	void			*ops;
	size_t			op_size;
	size_t			op_usr;
	size_t			op_priv;

	spinlock_t		fence_lock;
	struct list_head	fenced;
	unsigned int		nr_fenced;
};

/**
 * struct server_domain - a session's memory on one device
 * @base:	protection domain
 * @dma:	DMA address of every piece of every buffer; NULL until the first
 *		path on the device needs it
 */
struct server_domain {
	struct rtrs_domain	base;
	u64			*dma;
};

/* Counted per processor, read from sysfs. */
struct server_stats {
	u64	ops[2];
	u64	bytes[2];
};

/**
 * struct server_path - one client address, one address here
 * @sess:	session it belongs to, referenced
 * @sdev:	device it runs on, referenced
 * @dom:	the session's domain on it, referenced
 * @ref:	the list of its session, each connection, each look-up
 * @entry:	in rtrs_server_session.paths
 * @uuid:	identity
 * @cid_num:	connections it shall have
 * @nr_conns:	connections it has, under @setup
 * @conns:	the connections, under @setup until CONNECTED, then constant
 *		until the close work takes them down
 * @claimed:	bytes it counts for, see rtrs_server.claimed
 * @recon_cnt:	the client's count of attempts, of its latest connection
 * @client:	the client's address
 * @server:	our address
 * @label:	both as text
 * @port_num:	port of the device
 * @setup:	see above; whoever holds it and sees CONNECTING keeps the close
 *		work from looking at @conns
 * @lock:	@state, @answered, @owes_ack, @suspect, @probing, @probe_again, @held
 * @state:	changed by server_path_move() only
 * @wait:	woken by a change of state and by @registered
 * @close_work:	takes the path down
 * @info_work:	answers INFO_REQ, runs again while the fence holds it back
 * @fenced:	INFO_REQ is good, only the fence is in the way
 * @fence_end:	when that has taken too long, jiffies
 * @fence_entry: in rtrs_server_session.fenced
 * @handshake:	gives up a path that does not get CONNECTED, whatever
 *		it waits for
 * @deadline:	when INFO_REQ must have come, jiffies
 * @hb:		watches the client
 * @answered:	INFO_RSP has been posted
 * @owes_ack:	a heartbeat message came before that
 * @suspect:	the client may have given it up: new requests are held
 * @probing:	a message is under way whose completion clears the suspicion
 * @probe_again: another suspicion arose meanwhile
 * @probe_cqe:	completion of that message
 * @held:	operations that wait for it
 * @alt_ids:	ids for which this path uses rtrs_server_session.alt; NULL if
 *		none; constant when the path is CONNECTED
 * @mr:		memory regions over the chunks
 * @nr_mrs:	how many
 * @mr_chunks:	chunks in each
 * @registered:	the batch of registrations under way is done
 * @reg_cqe:	completion of such a batch
 * @users:	one per operation
 * @unused:	@users is down
 * @info_cqe:	INFO_REQ arrived
 * @info_req:	its buffer
 * @info_dma:	DMA address of it
 * @info_len:	bytes received
 * @rsp_cqe:	INFO_RSP is out
 * @rsp:	its buffer, until then
 * @rsp_dma:	DMA address of it
 * @rsp_len:	bytes of it
 * @has_keys:	counted in rtrs_server_session.nr_keys
 * @is_up:	counted in rtrs_server_session.nr_up
 * @has_dir:	@kobj is in sysfs
 * @grumbled:	an unknown message has been logged
 * @kobj:	directory in sysfs
 * @kobj_released: nobody refers to @kobj any more
 * @stats:	counters
 */
struct server_path {
	struct rtrs_server_session *sess;
	struct server_dev	*sdev;
	struct server_domain	*dom;
	struct kref		ref;
	struct list_head	entry;
	u8			uuid[RTRS_UUID_LEN];
	u16			cid_num;
	u16			nr_conns;
	u16			recon_cnt;
	struct server_conn	**conns;
	u64			claimed;
	struct sockaddr_storage	client;
	struct sockaddr_storage	server;
	char			label[RTRS_PATH_STRLEN];
	u32			port_num;

	struct mutex		setup;
	spinlock_t		lock;
	enum server_path_state	state;
	wait_queue_head_t	wait;
	struct work_struct	close_work;
	struct delayed_work	info_work;
	bool			fenced;
	unsigned long		fence_end;
	struct list_head	fence_entry;
	struct delayed_work	handshake;
	unsigned long		deadline;
	struct rtrs_hb		hb;

	bool			answered;
	bool			owes_ack;
	bool			suspect;
	bool			probing;
	bool			probe_again;
	struct ib_cqe		probe_cqe;
	struct list_head	held;

	unsigned long		*alt_ids;
	struct ib_mr		**mr;
	u32			nr_mrs;
	u32			mr_chunks;
	bool			registered;
	struct ib_cqe		reg_cqe;

	struct percpu_ref	users;
	struct completion	unused;

	struct ib_cqe		info_cqe;
	void			*info_req;
	u64			info_dma;
	u32			info_len;
	struct ib_cqe		rsp_cqe;
	void			*rsp;
	u64			rsp_dma;
	u32			rsp_len;

	bool			has_keys;
	bool			is_up;
	bool			has_dir;
	bool			grumbled;
	struct kobject		kobj;
	struct completion	kobj_released;
	struct server_stats __percpu *stats;
};

/**
 * struct server_conn - a connection of a path
 * @base:	queue pair and CM id
 * @path:	its path, referenced
 * @recv_cqe:	completion of every receive but INFO_REQ's
 * @nr_recv:	how many of them there are
 * @max_sge:	scatter entries of a send
 * @park_lock:	@parked
 * @parked:	operations that wait for room in the send queue
 * @room:	counts how often room was made
 */
struct server_conn {
	struct rtrs_conn	base;
	struct server_path	*path;
	struct ib_cqe		recv_cqe;
	u32			nr_recv;
	u32			max_sge;
	spinlock_t		park_lock;
	struct list_head	parked;
	atomic_t		room;
};

/**
 * enum server_stage - how far an operation is
 * @OP_RUNNING:	transport or user are at work
 * @OP_NEXT:	waited for an earlier operation, is about to begin
 * @OP_HELD:	begins when its path is known to be alive
 * @OP_SPARE:	waits for a spare buffer
 * @OP_PLACED:	has got it
 * @OP_INVALIDATE: the chunk's key is to be invalidated
 * @OP_INVALIDATING: that is under way; ends with @inv_cqe or the path
 * @OP_ANSWER:	the user is done, the response is to be sent
 */
enum server_stage {
	OP_RUNNING,
	OP_NEXT,
	OP_HELD,
	OP_SPARE,
	OP_PLACED,
	OP_INVALIDATE,
	OP_INVALIDATING,
	OP_ANSWER,
};

/**
 * struct server_op - what goes on with one buffer id
 * @op:		what the user sees
 * @sess:	session
 * @id:		buffer id
 * @lock:	@conn while it changes, @seq, @next_conn, @next_off, @voids, and
 *		the moves of @stage that others look at
 * @conn:	connection of the request; NULL if the id is free
 * @seq:	counts the requests
 * @next_conn:	a copy of the request over another path, waits for this one
 * @next_off:	its header's offset
 * @off:	the header's offset
 * @stage:	see above
 * @error:	the answer
 * @data_sent:	bytes of the answer posted so far
 * @voids:	the chunk's key is being voided, or is void
 * @invalidated: it is void, the answer must renew it
 * @hdr:	the request's header
 * @buf:	where the data is
 * @spare:	if that is a large private buffer
 * @inv_cqe:	the key is invalidated
 * @parked:	in server_conn.parked, server_path.held or
 *		rtrs_server_session.spare_queue
 * @work:	goes on with what has waited
 * @bvec:	room for op.bvec
 */
struct server_op {
	struct rtrs_op		op;
	struct rtrs_server_session *sess;
	u32			id;
	spinlock_t		lock;
	struct server_conn	*conn;
	u32			seq;
	struct server_conn	*next_conn;
	u32			next_off;

	u32			off;
	enum server_stage	stage;
	int			error;
	u32			data_sent;
	bool			voids;
	bool			invalidated;
	struct rtrs_io_hdr	hdr;
	struct server_buf	*buf;
	struct server_spare	*spare;
	struct ib_cqe		inv_cqe;
	struct list_head	parked;
	struct work_struct	work;
	struct bio_vec		bvec[];
};

static inline struct server_op *server_op(struct rtrs_server_session *sess,
					  u32 id)
{
	return sess->ops + id * sess->op_size;
}

/* What clients reach under an id over this path */
static inline struct server_buf *server_chunk(const struct server_path *path,
					      u32 id)
{
	if (unlikely(path->alt_ids) && test_bit(id, path->alt_ids))
		return path->sess->alt[id];
	return &path->sess->buf[id];
}

static inline struct server_buf *server_small(struct rtrs_server_session *sess,
					      u32 id)
{
	return &sess->buf[sess->depth + id];
}

static inline bool server_path_up(const struct server_path *path)
{
	/* Pairs with the release in server_path_move(). */
	return smp_load_acquire(&path->state) == SERVER_CONNECTED;
}

/* Has the client given the path up?  Not that we know, and nothing hints at it. */
static inline bool server_path_trusted(const struct server_path *path)
{
	return server_path_up(path) && !READ_ONCE(path->suspect);
}

static inline const char *server_path_name(const struct server_path *path)
{
	return path->sess->name[0] ? path->sess->name : "(no name yet)";
}

#define path_err(path, fmt, ...) \
	pr_err_ratelimited("%s, path %s: " fmt, server_path_name(path), \
			   (path)->label, ##__VA_ARGS__)
#define path_info(path, fmt, ...) \
	pr_info_ratelimited("%s, path %s: " fmt, server_path_name(path), \
			    (path)->label, ##__VA_ARGS__)

/* buf.c */
int server_buf_alloc(struct server_buf *buf, u32 size, int node);
void server_buf_free(struct server_buf *buf);
void server_buf_read(const struct server_buf *buf, u32 off, void *dst, u32 len);
void server_buf_copy(const struct server_buf *dst, const struct server_buf *src,
		     u32 len);
void *server_buf_at(const struct server_buf *buf, u32 off);
unsigned int server_buf_bvec(const struct server_buf *buf, u32 len,
			     struct bio_vec *bvec);
unsigned int server_buf_sge(const struct server_domain *dom,
			    const struct server_buf *buf, u32 off, u32 *len,
			    struct ib_sge *sge, unsigned int max);
void server_buf_sync_cpu(const struct server_domain *dom,
			 const struct server_buf *buf, u32 off, u32 len);
void server_buf_sync_dev(const struct server_domain *dom,
			 const struct server_buf *buf, u32 off, u32 len);

/* session.c */
extern const struct rtrs_domain_ops server_domain_ops;
struct rtrs_server_session *server_session_find(struct rtrs_server *srv,
						const u8 *uuid);
struct rtrs_server_session *server_session_create(struct rtrs_server *srv,
						  const u8 *uuid);
int server_session_set_name(struct rtrs_server_session *sess, const char *name);
void server_session_unlink(struct rtrs_server_session *sess);
void server_session_put(struct rtrs_server_session *sess);
int server_session_up(struct server_path *path);
void server_session_down(struct server_path *path);

/* memory.c */
u64 server_session_claim(const struct server_config *cfg);
u64 server_memory_limit(void);
int server_claim(struct rtrs_server *srv, u64 *claimed, u64 bytes);
void server_unclaim(struct rtrs_server *srv, u64 *claimed, u64 bytes);
int server_session_build(struct rtrs_server_session *sess, int node);
void server_session_release(struct rtrs_server_session *sess);
int server_domain_map(struct rtrs_server_session *sess,
		      struct server_domain *dom);
int server_buf_add(struct rtrs_server_session *sess, u32 size,
		   enum dma_data_direction dir, int node);
int server_alt_chunk(struct server_path *path, u32 id);

/* mr.c */
int server_mr_layout(struct server_path *path, struct ib_device *dev);
int server_mr_alloc(struct server_path *path);
int server_mr_map(struct server_path *path, u32 index);
int server_mr_register(struct server_path *path);
void server_mr_free(struct server_path *path);

static inline struct ib_mr *server_mr(struct server_path *path, u32 id)
{
	return path->mr[id / path->mr_chunks];
}

/* listener.c */
struct server_dev *server_dev_find(struct rtrs_server *srv,
				   const struct ib_device *dev);
void server_dev_put(struct server_dev *sdev);

/* connect.c */
void server_knocks_end(struct rtrs_server *srv);
int server_knock(struct rtrs_server *srv, struct rdma_cm_id *cm_id,
		 const struct rdma_conn_param *param);

/* path.c */
struct server_path *server_path_create(struct rtrs_server_session *sess,
				       struct server_dev *sdev,
				       struct rdma_cm_id *cm_id,
				       const struct rtrs_conn_req *req);
int server_path_accept(struct server_path *path, struct rdma_cm_id *cm_id,
		       const struct rtrs_conn_req *req);
bool server_path_move(struct server_path *path, enum server_path_state to);
void server_path_close(struct server_path *path, const char *why);
void server_path_get(struct server_path *path);
void server_path_put(struct server_path *path);

/* info.c */
int server_info_post(struct server_path *path);
void server_info_work(struct work_struct *work);
void server_info_free(struct server_path *path);
void server_hb_received(struct server_path *path);
extern const struct rtrs_hb_ops server_hb_ops;

/* fence.c */
void server_fence_init(struct server_path *path);
void server_fence_raise(struct server_path *path);
int server_fence_check(struct server_path *path);
int server_fence_pass(struct server_path *path);
void server_fence_leave(struct server_path *path);
void server_fence_kick(struct rtrs_server_session *sess);
void server_path_doubt(struct server_path *path);
void server_path_probe(struct server_path *path);
void server_op_admit(struct server_op *op);
struct server_op *server_held_pop(struct server_path *path);

/* op.c */
enum server_taken {
	OP_TAKEN,
	OP_TAKEN_HELD,
	OP_QUEUED,
	OP_LATE,
	OP_VIOLATION,
};

void server_op_init(struct server_op *op, struct rtrs_server_session *sess,
		    u32 id);
enum server_taken server_op_take(struct server_op *op, struct server_conn *conn,
				 u32 off);
void server_op_give_back(struct server_op *op);
bool server_op_take_back(struct server_op *op, struct server_conn *conn, u32 seq);
void server_op_drop(struct server_op *op);
bool server_op_claim(struct server_op *op, struct server_conn *conn, u32 seq,
		     enum server_stage to);
void server_op_abort(struct server_path *path);

/* reply.c */
void server_conn_resume(struct server_conn *conn);
struct server_op *server_op_unpark(struct server_conn *conn);
void server_op_advance(struct server_op *op);

/* io.c */
void server_recv_done(struct ib_cq *cq, struct ib_wc *wc);
void server_op_start(struct server_op *op);
void server_op_work(struct work_struct *work);
void server_invalidate_done(struct ib_cq *cq, struct ib_wc *wc);

/* spare.c */
bool server_spare_get(struct server_op *op, bool wait);
void server_spare_put(struct server_spare *spare);
void server_spare_sent(struct ib_cq *cq, struct ib_wc *wc);
struct server_op *server_spare_dequeue(struct server_path *path);
void server_spare_release(struct server_path *path);
void server_spare_grow(struct work_struct *work);

/* sysfs.c */
int server_sysfs_init(void);
void server_sysfs_exit(void);
int server_sysfs_add(struct server_path *path);
void server_sysfs_remove(struct server_path *path);

#endif /* RTRS_SERVER_H */
