/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Tracepoints of the server.
 *
 * What joins a request's events: "path cid id" names one sending of it on both
 * machines, where path is the first four bytes of the path's uuid as it travels
 * in CONN_REQ.  The client uses an id again only after an answer, so the events
 * of one (path, id) alternate: post, receive, start, reply, completion.  "seq"
 * counts the operations of an id at this server, over all paths.
 */
#undef TRACE_SYSTEM
#define TRACE_SYSTEM rtrs_server

#if !defined(RTRS_SERVER_TRACE_H) || defined(TRACE_HEADER_MULTI_READ)
#define RTRS_SERVER_TRACE_H

#include <linux/tracepoint.h>

#include "rtrs/server/server.h"

#define SERVER_TRACE_NAME	64	/* longer names are cut */

#ifndef RTRS_SERVER_TRACE_HELPERS
#define RTRS_SERVER_TRACE_HELPERS
static inline u32 server_trace_uuid(const u8 *u)
{
	return (u32)u[0] << 24 | u[1] << 16 | u[2] << 8 | u[3];
}

static inline const char *server_trace_state(unsigned int state)
{
	static const char * const names[] = {
		[SERVER_CONNECTING]	= "CONNECTING",
		[SERVER_CONNECTED]	= "CONNECTED",
		[SERVER_CLOSING]	= "CLOSING",
		[SERVER_CLOSED]		= "CLOSED",
	};

	return state < ARRAY_SIZE(names) ? names[state] : "?";
}

static inline const char *server_trace_taken(unsigned int taken)
{
	static const char * const names[] = {
		[OP_TAKEN]	= "to be started",
		[OP_TAKEN_HELD]	= "held, the path is in doubt",
		[OP_QUEUED]	= "queued behind an earlier operation",
		[OP_LATE]	= "dropped, the path is closing",
		[OP_VIOLATION]	= "refused, the id is in use",
	};

	return taken < ARRAY_SIZE(names) ? names[taken] : "?";
}
#endif

TRACE_EVENT(rtrs_server_connect,
	TP_PROTO(const char *from, const struct rtrs_conn_req *req, int error),
	TP_ARGS(from, req, error),
	TP_STRUCT__entry(
		__array(char, from, RTRS_ADDR_STRLEN)
		__field(u32, session)
		__field(u32, path)
		__field(u16, cid)
		__field(u16, cid_num)
		__field(u16, recon_cnt)
		__field(bool, first_conn)
		__field(int, error)
	),
	TP_fast_assign(
		strscpy(__entry->from, from, RTRS_ADDR_STRLEN);
		__entry->session = server_trace_uuid(req->session_uuid);
		__entry->path = server_trace_uuid(req->path_uuid);
		__entry->cid = req->cid;
		__entry->cid_num = req->cid_num;
		__entry->recon_cnt = req->recon_cnt;
		__entry->first_conn = req->first_conn;
		__entry->error = error;
	),
	TP_printk("session %08x path %08x cid %u of %u from %s, attempt %u, first_conn %u: %d",
		  __entry->session, __entry->path, __entry->cid,
		  __entry->cid_num, __entry->from, __entry->recon_cnt,
		  __entry->first_conn, __entry->error)
);

TRACE_EVENT(rtrs_server_state,
	TP_PROTO(const struct server_path *path, unsigned int from,
		 unsigned int to),
	TP_ARGS(path, from, to),
	TP_STRUCT__entry(
		__array(char, session, SERVER_TRACE_NAME)
		__array(char, name, RTRS_PATH_STRLEN)
		__field(u32, path)
		__field(unsigned int, from)
		__field(unsigned int, to)
	),
	TP_fast_assign(
		strscpy(__entry->session, server_path_name(path),
			SERVER_TRACE_NAME);
		strscpy(__entry->name, path->label, RTRS_PATH_STRLEN);
		__entry->path = server_trace_uuid(path->uuid);
		__entry->from = from;
		__entry->to = to;
	),
	TP_printk("session %s path %08x (%s): %s -> %s",
		  __entry->session, __entry->path, __entry->name,
		  server_trace_state(__entry->from),
		  server_trace_state(__entry->to))
);

TRACE_EVENT(rtrs_server_probed,
	TP_PROTO(const struct server_path *path, bool trusted),
	TP_ARGS(path, trusted),
	TP_STRUCT__entry(
		__field(u32, path)
		__field(bool, trusted)
	),
	TP_fast_assign(
		__entry->path = server_trace_uuid(path->uuid);
		__entry->trusted = trusted;
	),
	TP_printk("path %08x: alive%s", __entry->path,
		  __entry->trusted ? "" : ", but doubted again meanwhile")
);

TRACE_EVENT(rtrs_server_fence,
	TP_PROTO(const struct server_path *path, u32 paths, u32 ops, u32 voids),
	TP_ARGS(path, paths, ops, voids),
	TP_STRUCT__entry(
		__array(char, session, SERVER_TRACE_NAME)
		__field(u32, path)
		__field(u32, paths)
		__field(u32, ops)
		__field(u32, voids)
	),
	TP_fast_assign(
		strscpy(__entry->session, server_path_name(path),
			SERVER_TRACE_NAME);
		__entry->path = server_trace_uuid(path->uuid);
		__entry->paths = paths;
		__entry->ops = ops;
		__entry->voids = voids;
	),
	TP_printk("session %s path %08x: %u paths and %u operations in the way, %u in chunks with void keys",
		  __entry->session, __entry->path, __entry->paths,
		  __entry->ops, __entry->voids)
);

TRACE_EVENT(rtrs_server_receive,
	TP_PROTO(const struct server_conn *conn, u32 id, u32 off,
		 unsigned int taken),
	TP_ARGS(conn, id, off, taken),
	TP_STRUCT__entry(
		__field(u32, path)
		__field(u32, off)
		__field(unsigned int, taken)
		__field(u16, cid)
		__field(u16, id)
	),
	TP_fast_assign(
		__entry->path = server_trace_uuid(conn->path->uuid);
		__entry->cid = conn->base.cid;
		__entry->id = id;
		__entry->off = off;
		__entry->taken = taken;
	),
	TP_printk("path %08x cid %u id %u: header at %u, %s", __entry->path,
		  __entry->cid, __entry->id, __entry->off,
		  server_trace_taken(__entry->taken))
);

DECLARE_EVENT_CLASS(rtrs_server_op,
	TP_PROTO(const struct server_op *op),
	TP_ARGS(op),
	TP_STRUCT__entry(
		__field(u32, path)
		__field(u32, seq)
		__field(u32, data_len)
		__field(u32, usr_len)
		__field(int, error)
		__field(u16, cid)
		__field(u16, id)
		__field(bool, write)
	),
	TP_fast_assign(
		__entry->path = server_trace_uuid(op->conn->path->uuid);
		__entry->cid = op->conn->base.cid;
		__entry->id = op->id;
		__entry->seq = op->seq;
		__entry->data_len = op->op.data_len;
		__entry->usr_len = op->op.usr_len;
		__entry->error = op->error;
		__entry->write = op->op.dir == RTRS_DIR_WRITE;
	),
	TP_printk("path %08x cid %u id %u seq %u: %s of %u bytes, message of %u: %d",
		  __entry->path, __entry->cid, __entry->id, __entry->seq,
		  __entry->write ? "WRITE" : "READ", __entry->data_len,
		  __entry->usr_len, __entry->error)
);

DEFINE_EVENT(rtrs_server_op, rtrs_server_start,
	TP_PROTO(const struct server_op *op),
	TP_ARGS(op)
);

DEFINE_EVENT(rtrs_server_op, rtrs_server_reply,
	TP_PROTO(const struct server_op *op),
	TP_ARGS(op)
);

TRACE_EVENT(rtrs_server_drop,
	TP_PROTO(const struct server_op *op),
	TP_ARGS(op),
	TP_STRUCT__entry(
		__field(u32, path)
		__field(u32, seq)
		__field(u16, cid)
		__field(u16, id)
	),
	TP_fast_assign(
		__entry->path = server_trace_uuid(op->conn->path->uuid);
		__entry->cid = op->conn->base.cid;
		__entry->id = op->id;
		__entry->seq = op->seq;
	),
	TP_printk("path %08x cid %u id %u seq %u: dropped, the path is closing",
		  __entry->path, __entry->cid, __entry->id, __entry->seq)
);

#endif /* RTRS_SERVER_TRACE_H */

/* Found from the top of the tree, which is in every module's include path */
#undef TRACE_INCLUDE_PATH
#define TRACE_INCLUDE_PATH rtrs/server
#undef TRACE_INCLUDE_FILE
#define TRACE_INCLUDE_FILE trace
#include <trace/define_trace.h>
