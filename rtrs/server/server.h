/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Between the files of rtrs-server.ko only.
 *
 * Who owns whom: server, session, path, connection; and the session its
 * operations and buffers.  A child holds a counted reference to its parent.
 *
 * Locks, outermost first:
 *   path.setup      one connection is being accepted, or INFO processed
 *   server.lock     sessions, their lists of paths, names, devices
 *   session.lock    how many paths are up, the user's session, the directory
 *   path.lock       the path's state                               (spin, irq)
 *   conn.park_lock  what waits for room in the send queue          (spin, irq)
 *   op.lock         who uses a buffer id                           (spin, irq)
 * Of server.lock and session.lock only one is held at a time, of the last three
 * as well.
 */
#ifndef RTRS_SERVER_H
#define RTRS_SERVER_H

#include <linux/completion.h>
#include <linux/device.h>
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
/* A path whose handshake makes no progress is given up. */
#define SERVER_HANDSHAKE_MS	30000

/**
 * struct server_config - what the module parameters ask for
 * @depth:	chunks of a session
 * @chunk_size:	bytes of a chunk
 * @always_invalidate: the user never sees memory that a client can write to
 * @nr_spares:	large private buffers of a session, with @always_invalidate
 */
struct server_config {
	u32	depth;
	u32	chunk_size;
	bool	always_invalidate;
	u32	nr_spares;
};

extern struct server_config server_config;

/* Handshake timers, requests that waited for an earlier one */
extern struct workqueue_struct *server_wq;
/* INFO processing and closing of paths: may wait long for the user */
extern struct workqueue_struct *server_path_wq;

/**
 * struct rtrs_server - the listening user
 * @ops:	its callbacks
 * @port:	where it listens
 * @lock:	everything below but @listen_*
 * @sessions:	all of them
 * @devices:	RDMA devices that may be used
 * @closing:	no new connections
 * @listen_lock: serialises the two below
 * @listen_ip:	listener for IPv4 and IPv6
 * @listen_ib:	listener for GIDs
 * @listen_users: devices that want listeners
 * @listen_err:	why there are none
 * @client:	our registration for devices
 */
struct rtrs_server {
	struct rtrs_server_ops	ops;
	u16			port;
	struct mutex		lock;
	struct list_head	sessions;
	struct list_head	devices;
	bool			closing;

	struct mutex		listen_lock;
	struct rdma_cm_id	*listen_ip;
	struct rdma_cm_id	*listen_ib;
	unsigned int		listen_users;
	int			listen_err;
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
 */
struct server_buf {
	struct bio_vec	*ext;
	u32		nr_ext;
	u32		first;
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
 * @lock:	@nr_up, @nr_registered, @dir, and the user's callbacks
 * @nr_up:	paths whose client may send requests
 * @nr_registered: paths that have keys for the chunks
 * @priv:	the user's session, valid while @nr_up
 * @dir:	directory in sysfs
 * @depth:	chunks
 * @chunk_size:	bytes of a chunk
 * @max_io_size: bytes of data in a chunk
 * @always_invalidate: mode
 * @small_size:	bytes of a small private buffer, 0 if there are none
 * @nr_spares:	large private buffers
 * @spare:	the large private buffers
 * @spare_used:	bitmap of @spare
 * @buf:	all memory: chunks, small buffers, large ones, key messages
 * @nr_bufs:	how many
 * @nr_ext:	pieces of all
 * @max_ext:	the most pieces of any that holds data
 * @domains:	its protection domains
 * @ops:	operations, one per buffer id
 * @op_size:	bytes from one to the next
 * @op_usr:	offset of the user message's copy in an operation
 * @op_priv:	offset of the user's memory in an operation
 */
struct rtrs_server_session {
	struct rtrs_server	*srv;
	struct kref		ref;
	struct list_head	entry;
	struct list_head	paths;
	unsigned int		nr_paths;
	u8			uuid[RTRS_UUID_LEN];
	char			name[RTRS_NAME_LEN];

	struct mutex		lock;
	unsigned int		nr_up;
	unsigned int		nr_registered;
	void			*priv;
	struct server_dir	*dir;

	u32			depth;
	u32			chunk_size;
	u32			max_io_size;
	bool			always_invalidate;
	u32			small_size;
	u32			nr_spares;
	struct server_spare	*spare;
	unsigned long		*spare_used;
	struct server_buf	*buf;
	u32			nr_bufs;
	u32			nr_ext;
	u32			max_ext;
	struct rtrs_domain_pool	domains;

	void			*ops;
	size_t			op_size;
	size_t			op_usr;
	size_t			op_priv;
};

/**
 * struct server_domain - a session's memory on one device
 * @base:	protection domain
 * @dma:	DMA address of every piece of every buffer
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
 * @recon_cnt:	the client's count of attempts, for the log
 * @client:	the client's address
 * @server:	our address
 * @label:	both as text
 * @port_num:	port of the device
 * @setup:	see above; whoever holds it and sees CONNECTING keeps the close
 *		work from looking at @conns
 * @lock:	@state
 * @state:	changed by server_path_move() only
 * @wait:	woken by a change of state and by @registered
 * @close_work:	takes the path down
 * @info_work:	answers INFO_REQ
 * @handshake:	gives up a path that does not get CONNECTED
 * @hb:		watches the client
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
 * @is_registered: counted in rtrs_server_session.nr_registered
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
	struct sockaddr_storage	client;
	struct sockaddr_storage	server;
	char			label[RTRS_PATH_STRLEN];
	u32			port_num;

	struct mutex		setup;
	spinlock_t		lock;
	enum server_path_state	state;
	wait_queue_head_t	wait;
	struct work_struct	close_work;
	struct work_struct	info_work;
	struct delayed_work	handshake;
	struct rtrs_hb		hb;

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

	bool			is_registered;
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
 * @OP_INVALIDATE: the chunk's key is to be invalidated
 * @OP_INVALIDATING: that is under way; ends with @inv_cqe or the path
 * @OP_ANSWER:	the user is done, the response is to be sent
 */
enum server_stage {
	OP_RUNNING,
	OP_INVALIDATE,
	OP_INVALIDATING,
	OP_ANSWER,
};

/**
 * struct server_op - what goes on with one buffer id
 * @op:		what the user sees
 * @sess:	session
 * @id:		buffer id
 * @lock:	@conn while it changes, @seq, @next_conn, @next_off
 * @conn:	connection of the request; NULL if the id is free
 * @seq:	counts the requests
 * @next_conn:	a copy of the request over another path, waits for this one
 * @next_off:	its header's offset
 * @off:	the header's offset
 * @stage:	see above
 * @error:	the answer
 * @data_sent:	bytes of the answer posted so far
 * @invalidated: the chunk's key is void, the answer must renew it
 * @hdr:	the request's header
 * @buf:	where the data is
 * @spare:	if that is a large private buffer
 * @inv_cqe:	the key is invalidated
 * @parked:	in server_conn.parked
 * @work:	starts the copy that waited
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

static inline struct server_buf *server_chunk(struct rtrs_server_session *sess,
					      u32 id)
{
	return &sess->buf[id];
}

static inline struct server_buf *server_small(struct rtrs_server_session *sess,
					      u32 id)
{
	return &sess->buf[sess->depth + id];
}

/* One key message per id, in the last buffer */
static inline struct server_buf *server_msgs(struct rtrs_server_session *sess)
{
	return &sess->buf[sess->nr_bufs - 1];
}

static inline bool server_path_up(const struct server_path *path)
{
	/* Pairs with the release in server_path_move(). */
	return smp_load_acquire(&path->state) == SERVER_CONNECTED;
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
						  const u8 *uuid, int node);
int server_session_set_name(struct rtrs_server_session *sess, const char *name);
void server_session_unlink(struct rtrs_server_session *sess);
void server_session_put(struct rtrs_server_session *sess);
int server_session_up(struct server_path *path);
void server_session_down(struct server_path *path);

/* mr.c */
int server_mr_alloc(struct server_path *path);
int server_mr_register(struct server_path *path);
void server_mr_free(struct server_path *path);

static inline struct ib_mr *server_mr(struct server_path *path, u32 id)
{
	return path->mr[id / path->mr_chunks];
}

/* listener.c */
void server_dev_put(struct server_dev *sdev);

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
extern const struct rtrs_hb_ops server_hb_ops;

/* io.c */
void server_recv_done(struct ib_cq *cq, struct ib_wc *wc);
void server_conn_resume(struct server_conn *conn);
void server_op_init(struct server_op *op, struct rtrs_server_session *sess,
		    u32 id);
void server_io_abort(struct server_path *path);

/* spare.c */
struct server_spare *server_spare_get(struct server_path *path);
void server_spare_put(struct server_spare *spare);
void server_spare_sent(struct ib_cq *cq, struct ib_wc *wc);
void server_spare_release(struct server_path *path);

/* sysfs.c */
int server_sysfs_init(void);
void server_sysfs_exit(void);
int server_sysfs_add(struct server_path *path);
void server_sysfs_remove(struct server_path *path);

#endif /* RTRS_SERVER_H */
