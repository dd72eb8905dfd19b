/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Tracepoints of the client.
 *
 * What joins a request's events: "tag.seq" names it at this client from its
 * first post to its completion, over however many paths; "path cid id" names one
 * sending of it on both machines, where path is the first four bytes of the
 * path's uuid as it travels in CONN_REQ.
 */
#undef TRACE_SYSTEM
#define TRACE_SYSTEM rtrs_client

#if !defined(RTRS_CLIENT_TRACE_H) || defined(TRACE_HEADER_MULTI_READ)
#define RTRS_CLIENT_TRACE_H

#include <linux/tracepoint.h>

#include "rtrs/client/client.h"

#define RTRS_TRACE_NAME		64	/* longer names are cut */

#ifndef RTRS_CLIENT_TRACE_HELPERS
#define RTRS_CLIENT_TRACE_HELPERS
static inline u32 rtrs_trace_path(const struct client_path *path)
{
	const u8 *u = path->uuid;

	return (u32)u[0] << 24 | u[1] << 16 | u[2] << 8 | u[3];
}

static inline const char *rtrs_trace_state(unsigned int state)
{
	static const char * const names[CLIENT_NR_STATES] = {
		[CLIENT_CONNECTING]	= "CONNECTING",
		[CLIENT_CONNECTED]	= "CONNECTED",
		[CLIENT_CONNECTING_ERR]	= "CONNECTING_ERR",
		[CLIENT_RECONNECTING]	= "RECONNECTING",
		[CLIENT_CLOSING]	= "CLOSING",
		[CLIENT_CLOSED]		= "CLOSED",
		[CLIENT_DEAD]		= "DEAD",
	};

	return state < CLIENT_NR_STATES ? names[state] : "?";
}
#endif

TRACE_EVENT(rtrs_client_connect,
	TP_PROTO(const struct client_path *path),
	TP_ARGS(path),
	TP_STRUCT__entry(
		__array(char, session, RTRS_TRACE_NAME)
		__array(char, name, RTRS_PATH_STRLEN)
		__field(u32, path)
		__field(u16, recon_cnt)
		__field(bool, first_conn)
	),
	TP_fast_assign(
		strscpy(__entry->session, path->clt->name, RTRS_TRACE_NAME);
		strscpy(__entry->name, client_path_name(path),
			RTRS_PATH_STRLEN);
		__entry->path = rtrs_trace_path(path);
		__entry->recon_cnt = path->recon_cnt;
		__entry->first_conn = path->first_conn;
	),
	TP_printk("session %s path %08x (%s): attempt %u, first_conn %u",
		  __entry->session, __entry->path, __entry->name,
		  __entry->recon_cnt, __entry->first_conn)
);

TRACE_EVENT(rtrs_client_connect_done,
	TP_PROTO(const struct client_path *path, int error),
	TP_ARGS(path, error),
	TP_STRUCT__entry(
		__array(char, session, RTRS_TRACE_NAME)
		__array(char, name, RTRS_PATH_STRLEN)
		__field(u32, path)
		__field(u16, recon_cnt)
		__field(int, error)
	),
	TP_fast_assign(
		strscpy(__entry->session, path->clt->name, RTRS_TRACE_NAME);
		strscpy(__entry->name, client_path_name(path),
			RTRS_PATH_STRLEN);
		__entry->path = rtrs_trace_path(path);
		__entry->recon_cnt = path->recon_cnt;
		__entry->error = error;
	),
	TP_printk("session %s path %08x (%s): attempt %u: %d",
		  __entry->session, __entry->path, __entry->name,
		  __entry->recon_cnt, __entry->error)
);

TRACE_EVENT(rtrs_client_reconnect,
	TP_PROTO(const struct client_path *path, unsigned int delay_ms),
	TP_ARGS(path, delay_ms),
	TP_STRUCT__entry(
		__array(char, session, RTRS_TRACE_NAME)
		__array(char, name, RTRS_PATH_STRLEN)
		__field(u32, path)
		__field(unsigned int, attempts)
		__field(unsigned int, delay_ms)
	),
	TP_fast_assign(
		strscpy(__entry->session, path->clt->name, RTRS_TRACE_NAME);
		strscpy(__entry->name, client_path_name(path),
			RTRS_PATH_STRLEN);
		__entry->path = rtrs_trace_path(path);
		__entry->attempts = path->attempts;
		__entry->delay_ms = delay_ms;
	),
	TP_printk("session %s path %08x (%s): after %u attempts the next one in %u ms",
		  __entry->session, __entry->path, __entry->name,
		  __entry->attempts, __entry->delay_ms)
);

TRACE_EVENT(rtrs_client_state,
	TP_PROTO(const struct client_path *path, unsigned int from,
		 unsigned int to),
	TP_ARGS(path, from, to),
	TP_STRUCT__entry(
		__array(char, session, RTRS_TRACE_NAME)
		__field(u32, path)
		__field(unsigned int, from)
		__field(unsigned int, to)
	),
	TP_fast_assign(
		strscpy(__entry->session, path->clt->name, RTRS_TRACE_NAME);
		__entry->path = rtrs_trace_path(path);
		__entry->from = from;
		__entry->to = to;
	),
	TP_printk("session %s path %08x: %s -> %s",
		  __entry->session, __entry->path,
		  rtrs_trace_state(__entry->from),
		  rtrs_trace_state(__entry->to))
);

TRACE_EVENT(rtrs_client_post,
	TP_PROTO(const struct client_slot *slot),
	TP_ARGS(slot),
	TP_STRUCT__entry(
		__field(u32, path)
		__field(u32, seq)
		__field(u32, data_len)
		__field(u16, tag)
		__field(u16, cid)
		__field(u16, id)
		__field(u16, usr_len)
		__field(u8, dir)
	),
	TP_fast_assign(
		__entry->path = rtrs_trace_path(slot->conn->path);
		__entry->seq = slot->seq;
		__entry->data_len = slot->req->data_len;
		__entry->tag = slot->tag;
		__entry->cid = slot->conn->base.cid;
		__entry->id = slot->id;
		__entry->usr_len = slot->req->usr_len;
		__entry->dir = slot->req->dir;
	),
	TP_printk("%u.%u: path %08x cid %u id %u: %s, message %u, data %u",
		  __entry->tag, __entry->seq, __entry->path, __entry->cid,
		  __entry->id, __entry->dir == RTRS_DIR_WRITE ? "write" : "read",
		  __entry->usr_len, __entry->data_len)
);

TRACE_EVENT(rtrs_client_complete,
	TP_PROTO(const struct client_slot *slot, int error),
	TP_ARGS(slot, error),
	TP_STRUCT__entry(
		__field(u32, path)
		__field(u32, seq)
		__field(int, error)
		__field(u16, tag)
		__field(u16, cid)
		__field(u16, id)
	),
	TP_fast_assign(
		__entry->path = rtrs_trace_path(slot->conn->path);
		__entry->seq = slot->seq;
		__entry->error = error;
		__entry->tag = slot->tag;
		__entry->cid = slot->conn->base.cid;
		__entry->id = slot->id;
	),
	TP_printk("%u.%u: path %08x cid %u id %u: %d",
		  __entry->tag, __entry->seq, __entry->path, __entry->cid,
		  __entry->id, __entry->error)
);

TRACE_EVENT(rtrs_client_failover,
	TP_PROTO(const struct client_path *from, const struct client_path *to,
		 u16 tag, u16 id, u32 seq),
	TP_ARGS(from, to, tag, id, seq),
	TP_STRUCT__entry(
		__field(u32, from)
		__field(u32, to)
		__field(u32, seq)
		__field(u16, tag)
		__field(u16, id)
	),
	TP_fast_assign(
		__entry->from = rtrs_trace_path(from);
		__entry->to = rtrs_trace_path(to);
		__entry->seq = seq;
		__entry->tag = tag;
		__entry->id = id;
	),
	TP_printk("%u.%u: id %u from path %08x to path %08x",
		  __entry->tag, __entry->seq, __entry->id, __entry->from,
		  __entry->to)
);

#endif /* RTRS_CLIENT_TRACE_H */

#undef TRACE_INCLUDE_PATH
#define TRACE_INCLUDE_PATH rtrs/client
#undef TRACE_INCLUDE_FILE
#define TRACE_INCLUDE_FILE trace
#include <trace/define_trace.h>
