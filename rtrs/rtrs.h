/* SPDX-License-Identifier: GPL-2.0 */
/*
 * RTRS, the in-kernel interface: a reliable, multipath transport for users
 * that move blocks of data between one client and one server.
 *
 * A client opens a session to a server; the session has a fixed number of
 * buffer ids (its queue depth), and every request occupies one of them from
 * submission to completion.  The user of the transport owns them: it hands a
 * tag below rtrs_client_limits.nr_tags to each request and guarantees that a
 * tag is used by one request at a time.  A block driver uses its block layer
 * tags; there is no second allocator.
 *
 * A request carries a short user message to the server and moves data in one
 * direction: READ fills the client's memory, WRITE sends it.  It completes
 * exactly once, with 0 or a negative errno: the server's own answer, or
 * -ECONNABORTED when no path could carry it (a server's answer of that name
 * arrives as -EIO), or -ETIMEDOUT when its user had it end.
 *
 * A session may have many paths.  A request of a path that is lost is sent again
 * over another one, so the server's user may see it twice, the second time not
 * before it has answered the first: operations must be such that this does no
 * harm.  The order in which requests are executed is not defined.
 *
 * How a client's user works:
 *
 *	clt = rtrs_client_open(&cfg);		connects; sleeps
 *	rtrs_client_query(clt, &lim);		how many tags, queues, bytes
 *	...
 *	req->tag = a tag nobody uses;		0 .. lim.nr_tags - 1
 *	req->queue = this CPU's queue;		0 .. lim.nr_queues - 1
 *	rtrs_client_submit(clt, req, last);	any context
 *	req->done(req, error);			later, or already
 *	...
 *	rtrs_client_close(clt);			what is in flight ends first
 *
 * A user that hands over several requests passes @last with the final one, or
 * calls rtrs_client_commit() afterwards; requests before that may wait.  -EAGAIN
 * and -ENOMEM from submit mean "later": other requests have to end first, so
 * trying again when one has completed, or after some milliseconds, is enough.
 * Requests to a polled queue complete only inside rtrs_client_poll().
 *
 * The transport itself waits for an answer as long as the path is alive.  Who
 * does not want to wait that long calls rtrs_client_expire(): memory that a
 * server may still reach can be taken back only by ending the path, so that
 * costs the path, and what else is under way on it is sent again elsewhere.
 *
 * When all paths are lost every request in flight ends with -ECONNABORTED, then
 * cfg.link(RTRS_LINK_DOWN) is called, and until RTRS_LINK_UP submissions fail at
 * once.  What the server's user knew of the session may be gone by then:
 * whatever was set up there has to be set up again after RTRS_LINK_UP.
 *
 * How a server's user works: rtrs_server_open() with its callbacks.  connected()
 * begins a session, request() is called for every request of it, and answered by
 * rtrs_op_respond() from any context; disconnected() ends the session when its
 * last path is gone and nothing is outstanding.
 *
 * No RDMA type appears here.
 */
#ifndef RTRS_H
#define RTRS_H

#include <linux/types.h>
#include <linux/socket.h>
#include <linux/scatterlist.h>
#include <linux/bvec.h>

#include "rtrs/wire.h"

/*
 * What the five modules expect of each other has a number, which is part of the
 * name of a symbol of rtrs-core that the other four need.  So modules of two builds
 * that differ in it cannot be loaded together, not even on a kernel without
 * CONFIG_MODVERSIONS.  Raise it with each change of an exported function, or of a
 * structure that two modules know.
 */
#define RTRS_ABI	rtrs_abi_1

extern const char RTRS_ABI;

/* Once in each of the four */
#define RTRS_NEEDS_ABI	static const char *const __used rtrs_needs_abi = &RTRS_ABI

/*
 * Addresses (rtrs-core)
 */

/**
 * struct rtrs_addr - the two ends of a path
 * @src:	source; family AF_UNSPEC when routing shall choose
 * @dst:	destination
 */
struct rtrs_addr {
	struct sockaddr_storage src;
	struct sockaddr_storage dst;
};

/* Room for "gid:" + 39 + "@" + the same + NUL, and for IPv6 scopes */
#define RTRS_ADDR_STRLEN	64
#define RTRS_PATH_STRLEN	(2 * RTRS_ADDR_STRLEN)

int rtrs_addr_parse(const char *str, size_t len, u16 port,
		    struct rtrs_addr *addr);
int rtrs_addr_format(const struct sockaddr_storage *ss, char *buf, size_t size);
int rtrs_addr_format_path(const struct sockaddr_storage *src,
			  const struct sockaddr_storage *dst,
			  char *buf, size_t size);
bool rtrs_addr_equal(const struct sockaddr_storage *a,
		     const struct sockaddr_storage *b);

/*
 * Client (rtrs-client)
 */

struct rtrs_client;

/**
 * enum rtrs_link - what happened to the session as a whole
 * @RTRS_LINK_UP:   the first path came back after all had been down
 * @RTRS_LINK_DOWN: the last path went down; its requests have been completed
 */
enum rtrs_link {
	RTRS_LINK_UP,
	RTRS_LINK_DOWN,
};

/**
 * struct rtrs_client_config - what a session shall be
 * @name:	session name, see rtrs_name_len()
 * @path:	the paths; it is enough if one can be connected
 * @nr_paths:	how many, 1 .. RTRS_MAX_PATHS
 * @port:	destination port of paths added later
 * @nr_poll_queues: connections that are polled by the user
 * @reconnect_delay: longest pause between two reconnect attempts, seconds
 * @max_reconnects: reconnect attempts until a path is given up, -1 = no limit
 * @link:	session-level events, not for the initial connect; process
 *		context, serialised; must neither wait for a response nor close
 *		the session; may be NULL
 * @priv:	handed to @link
 *
 * Everything is copied by rtrs_client_open().
 */
struct rtrs_client_config {
	const char		*name;
	const struct rtrs_addr	*path;
	unsigned int		nr_paths;
	u16			port;
	unsigned int		nr_poll_queues;
	unsigned int		reconnect_delay;
	int			max_reconnects;
	void			(*link)(void *priv, enum rtrs_link event);
	void			*priv;
};

/**
 * struct rtrs_client_limits - what a session can do
 * @queue_depth: the server's chunks
 * @nr_tags:	tags the user may use, 0 .. @nr_tags - 1; a few ids less than
 *		@queue_depth are kept as spares
 * @max_io_size: bytes of data of one request
 * @max_segments: scatter entries of one request
 * @max_usr_len: bytes of user message
 * @nr_queues:	interrupt-driven queues, at least 1
 * @nr_poll_queues: polled queues, numbered behind the interrupt-driven ones
 */
struct rtrs_client_limits {
	u32	queue_depth;
	u32	nr_tags;
	u32	max_io_size;
	u32	max_segments;
	u32	max_usr_len;
	u32	nr_queues;
	u32	nr_poll_queues;
};

/* rtrs_request.queue of a message that shall travel on the service connection */
#define RTRS_QUEUE_ADMIN	0xFFFF

/**
 * struct rtrs_request - one request
 * @dir:	direction
 * @tag:	below rtrs_client_limits.nr_tags, not in use by another request
 * @queue:	queue it shall travel on, or RTRS_QUEUE_ADMIN
 * @usr_len:	bytes of user message
 * @usr:	user message; stays valid until @done (a failed-over request is
 *		sent again)
 * @sgl:	data; every entry but the first starts and every entry but the
 *		last ends on a 4 KiB boundary; neither list nor data is changed
 *		until @done (a WRITE may be sent again); may be NULL when
 *		@data_len is 0
 * @nents:	entries of @sgl
 * @data_len:	bytes of data; must equal the sum of the entries
 * @expired:	false; set by rtrs_client_expire()
 * @done:	called exactly once per successful submission, possibly before
 *		the submit call returns, from softirq or process context; the
 *		tag is free again when it is called
 *
 * On the service connection only READs carry data.
 */
struct rtrs_request {
	enum rtrs_dir		dir;
	u16			tag;
	u16			queue;
	u16			usr_len;
	const void		*usr;
	struct scatterlist	*sgl;
	unsigned int		nents;
	u32			data_len;
	bool			expired;
	void			(*done)(struct rtrs_request *req, int error);
};

/**
 * enum rtrs_expire - what shall become of a request that takes too long
 * @RTRS_EXPIRE_MOVE: it goes on over another path; nothing happens if none is
 *		connected
 * @RTRS_EXPIRE_PATH: the same, but if there is none the session loses its last
 *		path, and the request ends with -ECONNABORTED
 * @RTRS_EXPIRE_END: it ends with -ETIMEDOUT, wherever it might have gone; the
 *		server may still execute it, beside and after what other paths
 *		bring, so that must do no harm
 */
enum rtrs_expire {
	RTRS_EXPIRE_MOVE,
	RTRS_EXPIRE_PATH,
	RTRS_EXPIRE_END,
};

struct rtrs_client *rtrs_client_open(const struct rtrs_client_config *cfg);
void rtrs_client_close(struct rtrs_client *clt);
int rtrs_client_query(struct rtrs_client *clt, struct rtrs_client_limits *lim);
int rtrs_client_submit(struct rtrs_client *clt, struct rtrs_request *req,
		       bool last);
void rtrs_client_commit(struct rtrs_client *clt, u16 queue);
int rtrs_client_poll(struct rtrs_client *clt, u16 queue);
void rtrs_client_expire(struct rtrs_client *clt, struct rtrs_request *req,
			enum rtrs_expire how);

/*
 * Server (rtrs-server)
 */

struct rtrs_server;
struct rtrs_server_session;

/*
 * A server's user in short:
 *
 *	rtrs_server_open(&ops, port)		clients may come from here on
 *	    ops.connected(sess, &priv)		a client is there; once per session
 *	    ops.request(priv, op)		many at a time, any order
 *		work on op->usr and op->bvec
 *		rtrs_op_respond(op, error)	or return an errno
 *	    ops.disconnected(priv)		all operations answered, no path left
 *	rtrs_server_close(srv)			disconnects everybody, waits
 *
 * What the transport guarantees:
 *  - op->usr and *op are private: no client can change them.  With
 *    always_invalidate that holds for the data as well, without it a client
 *    can change the data of its own requests at any time.
 *  - An operation keeps its memory until it is answered, also when its client
 *    is long gone; the answer is then discarded.  Whoever answers late delays
 *    that client's return, and nobody else's.
 *  - After a path was lost the client may send a request again over another
 *    one.  The user then sees it twice, but never both at a time: the second
 *    not before the first was answered.  A client whose last path was lost is
 *    not let in again before every operation of it has been answered.
 *  - connected() and disconnected() of a session alternate and never overlap;
 *    request() is called only between them.
 *
 * What it does not know: whether two clients may use the same thing, and what a
 * request means.  rtrs_server_session_name() is what the client says it is.
 */

/**
 * struct rtrs_op - one request at the server
 * @dir:	direction
 * @usr_len:	bytes of user message
 * @usr:	private copy of the user message; no peer can change it
 * @data_len:	bytes of data
 * @bvec:	the data: what a WRITE brought, or where a READ's answer goes; an
 *		entry may be longer than a page; lowmem
 * @nr_bvecs:	entries of @bvec; their lengths add up to @data_len; 0 without
 *		data
 *
 * Valid from the request callback until rtrs_op_respond(), or until that
 * callback returns an errno.  Nothing in it is to be changed but the memory that
 * @usr and @bvec lead to.  A READ that is answered with success sends all of
 * @data_len bytes: what the user has not filled is somebody's old data, so clear
 * it.  The user's own memory for the operation is at rtrs_op_priv(); op and
 * that memory are allocated with the session, so that a request allocates
 * nothing.
 */
struct rtrs_op {
	enum rtrs_dir	dir;
	u32		usr_len;
	void		*usr;
	u32		data_len;
	struct bio_vec	*bvec;
	unsigned int	nr_bvecs;
};

/**
 * struct rtrs_server_ops - a user of the server
 * @op_priv_size: bytes at rtrs_op_priv() of each operation, zeroed once when
 *		the session is created; aligned to a cache line
 * @max_usr_len: longest user message the user can understand; longer ones are
 *		answered with -EINVAL by the transport; at most 4096
 * @connected:	the first path of a session is up; process context, may sleep;
 *		stores what later callbacks get as @priv; an errno refuses the
 *		session: its path is closed
 * @disconnected: the last path is gone and no operation is outstanding;
 *		process context, may sleep
 * @request:	a request; called in process context of a completion queue that
 *		other sessions share, so it must not wait; on several processors
 *		at a time, for one session too.  Returns 0 when the answer is
 *		given (or was given already) by rtrs_op_respond(), or a negative
 *		errno which is then the answer.
 *
 * No callback is called with a lock that rtrs_op_respond() takes, and none of
 * them may call rtrs_server_close().
 */
struct rtrs_server_ops {
	size_t	op_priv_size;
	u32	max_usr_len;
	int	(*connected)(struct rtrs_server_session *sess, void **priv);
	void	(*disconnected)(void *priv);
	int	(*request)(void *priv, struct rtrs_op *op);
};

struct rtrs_server *rtrs_server_open(const struct rtrs_server_ops *ops, u16 port);
void rtrs_server_close(struct rtrs_server *srv);
const char *rtrs_server_session_name(const struct rtrs_server_session *sess);
u32 rtrs_server_session_depth(const struct rtrs_server_session *sess);
void *rtrs_op_priv(struct rtrs_op *op);
void rtrs_op_respond(struct rtrs_op *op, int error);

#endif /* RTRS_H */
