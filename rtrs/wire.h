/* SPDX-License-Identifier: GPL-2.0 */
/*
 * RTRS on the wire: layouts, immediates and bounds as pure functions on bytes.
 *
 * Nothing here touches kernel state, allocates, sleeps or locks, so the same
 * file is compiled on the host for the unit tests, the fuzzers and the hostile
 * peer.  The rule for everything that comes from a peer: the caller hands over
 * a private copy and the number of bytes really received, gets back either a
 * fully checked native structure or a negative errno, and never looks at the
 * bytes again.
 *
 * Errors of the decoders:
 *   -EMSGSIZE  fewer bytes than the message needs
 *   -EPROTO    not our protocol: foreign magic, major version or message type
 *   -EINVAL    a field is out of its bounds
 */
#ifndef RTRS_WIRE_H
#define RTRS_WIRE_H

#include <linux/types.h>
#include <linux/build_bug.h>
#include <linux/errno.h>
#include <linux/log2.h>
#include <linux/string.h>
#include <asm/byteorder.h>

#define RTRS_MAGIC		0x1BBD
#define RTRS_VERSION_MAJOR	2
#define RTRS_VERSION_MINOR	0
#define RTRS_VERSION		((RTRS_VERSION_MAJOR << 8) | RTRS_VERSION_MINOR)

#define RTRS_DEFAULT_PORT	1234
#define RTRS_UUID_LEN		16

/* Limits of the protocol */
#define RTRS_MAX_CONNS		4096	/* connections of one path */
#define RTRS_MAX_PATHS		128	/* paths of one session */
#define RTRS_MAX_DEPTH		65535	/* chunks of one session */
#define RTRS_MIN_CHUNK		8192	/* bytes */
#define RTRS_NAME_LEN		255	/* session name with its NUL */
#define RTRS_MIN_HDR		4096	/* smallest sane max_hdr_size, bytes */
#define RTRS_MAX_HDR		65536	/* largest page size of any server */
#define RTRS_MIN_IO		4096	/* smallest sane max_io_size, bytes */

#define RTRS_CM_PRIV_LEN	56	/* CONN_REQ and CONN_RSP, bytes */

enum rtrs_msg_type {
	RTRS_MSG_INFO_REQ	= 0,
	RTRS_MSG_INFO_RSP	= 1,
	RTRS_MSG_WRITE		= 2,
	RTRS_MSG_READ		= 3,
	RTRS_MSG_RKEY_RSP	= 4,
};

/* In the READ header */
#define RTRS_FLAG_NEED_INVAL	0x1
/* In CONN_RSP */
#define RTRS_FLAG_NEW_RKEY	0x2

enum rtrs_dir {
	RTRS_DIR_READ,
	RTRS_DIR_WRITE,
};

/*
 * Layouts.  Reserved bytes are sent as zero and ignored when received.
 */

struct rtrs_wire_conn_req {
	u8	cma_version;	/* zero: overlaps the CM's header on AF_IB */
	u8	ip_version;	/* zero */
	__le16	magic;
	__le16	version;
	__le16	cid;
	__le16	cid_num;
	__le16	recon_cnt;
	u8	path_uuid[RTRS_UUID_LEN];
	u8	session_uuid[RTRS_UUID_LEN];
	u8	first_conn;	/* 0x01; big-endian mainline hosts send 0x80 */
	u8	reserved[11];
};
static_assert(sizeof(struct rtrs_wire_conn_req) == RTRS_CM_PRIV_LEN);
static_assert(offsetof(struct rtrs_wire_conn_req, path_uuid) == 12);
static_assert(offsetof(struct rtrs_wire_conn_req, session_uuid) == 28);
static_assert(offsetof(struct rtrs_wire_conn_req, first_conn) == 44);

struct rtrs_wire_conn_rsp {
	__le16	magic;
	__le16	version;
	__le16	error;		/* negative errno, two's complement; 0 = accepted */
	__le16	queue_depth;
	__le32	max_io_size;
	__le32	max_hdr_size;
	__le32	flags;
	u8	reserved[36];
};
static_assert(sizeof(struct rtrs_wire_conn_rsp) == RTRS_CM_PRIV_LEN);
static_assert(offsetof(struct rtrs_wire_conn_rsp, max_io_size) == 8);
static_assert(offsetof(struct rtrs_wire_conn_rsp, flags) == 16);

struct rtrs_wire_info_req {
	__le16	type;
	u8	name[RTRS_NAME_LEN];
	u8	reserved[15];
};
static_assert(sizeof(struct rtrs_wire_info_req) == 272);
static_assert(offsetof(struct rtrs_wire_info_req, name) == 2);

struct rtrs_wire_desc {
	__le64	addr;
	__le32	key;
	__le32	len;
};
static_assert(sizeof(struct rtrs_wire_desc) == 16);

struct rtrs_wire_info_rsp {
	__le16	type;
	__le16	sg_cnt;
	u8	reserved[4];
	struct rtrs_wire_desc desc[];
};
static_assert(sizeof(struct rtrs_wire_info_rsp) == 8);

struct rtrs_wire_write_hdr {
	__le16	type;
	__le16	usr_len;
};
static_assert(sizeof(struct rtrs_wire_write_hdr) == 4);

struct rtrs_wire_read_hdr {
	__le16	type;
	__le16	usr_len;
	__le16	flags;
	__le16	sg_cnt;
	struct rtrs_wire_desc desc[];
};
static_assert(sizeof(struct rtrs_wire_read_hdr) == 8);

struct rtrs_wire_rkey_rsp {
	__le16	type;
	__le16	buf_id;
	__le32	rkey;
};
static_assert(sizeof(struct rtrs_wire_rkey_rsp) == 8);

/* The longest header a request can carry behind its user message, bytes */
#define RTRS_MAX_IO_HDR \
	(sizeof(struct rtrs_wire_read_hdr) + sizeof(struct rtrs_wire_desc))

/*
 * Connection request and response
 */

/**
 * struct rtrs_conn_req - CONN_REQ in native form
 * @cid:	index of this connection, below @cid_num
 * @cid_num:	connections of the path, 1 .. RTRS_MAX_CONNS
 * @recon_cnt:	the client's connect-attempt counter of the path, first is 1
 * @path_uuid:	identity of the path, opaque
 * @session_uuid: identity of the session, opaque
 * @first_conn:	the server may create the session if it does not know it
 */
struct rtrs_conn_req {
	u16	cid;
	u16	cid_num;
	u16	recon_cnt;
	u8	path_uuid[RTRS_UUID_LEN];
	u8	session_uuid[RTRS_UUID_LEN];
	bool	first_conn;
};

/**
 * rtrs_conn_req_encode() - lay a connection request out
 * @msg:	destination, every byte is written
 * @req:	source
 */
static inline void rtrs_conn_req_encode(struct rtrs_wire_conn_req *msg,
					const struct rtrs_conn_req *req)
{
	memset(msg, 0, sizeof(*msg));
	msg->magic = cpu_to_le16(RTRS_MAGIC);
	msg->version = cpu_to_le16(RTRS_VERSION);
	msg->cid = cpu_to_le16(req->cid);
	msg->cid_num = cpu_to_le16(req->cid_num);
	msg->recon_cnt = cpu_to_le16(req->recon_cnt);
	memcpy(msg->path_uuid, req->path_uuid, RTRS_UUID_LEN);
	memcpy(msg->session_uuid, req->session_uuid, RTRS_UUID_LEN);
	msg->first_conn = req->first_conn;
}

static inline int rtrs_check_proto(__le16 magic, __le16 version)
{
	if (le16_to_cpu(magic) != RTRS_MAGIC)
		return -EPROTO;
	if (le16_to_cpu(version) >> 8 != RTRS_VERSION_MAJOR)
		return -EPROTO;
	return 0;
}

/**
 * rtrs_conn_req_decode() - check a connection request, rules 1 to 5 of the server
 * @buf:	private data of the CM request
 * @len:	its length; more than 56 bytes are legal and ignored
 * @req:	result, valid only on success
 *
 * Return: 0, -EMSGSIZE, -EPROTO or -EINVAL (cid or cid_num out of bounds).
 */
static inline int rtrs_conn_req_decode(const void *buf, size_t len,
				       struct rtrs_conn_req *req)
{
	struct rtrs_wire_conn_req msg;
	int err;

	if (len < sizeof(msg))
		return -EMSGSIZE;
	memcpy(&msg, buf, sizeof(msg));
	err = rtrs_check_proto(msg.magic, msg.version);
	if (err)
		return err;
	req->cid = le16_to_cpu(msg.cid);
	req->cid_num = le16_to_cpu(msg.cid_num);
	if (req->cid_num > RTRS_MAX_CONNS || req->cid >= req->cid_num)
		return -EINVAL;
	req->recon_cnt = le16_to_cpu(msg.recon_cnt);
	memcpy(req->path_uuid, msg.path_uuid, RTRS_UUID_LEN);
	memcpy(req->session_uuid, msg.session_uuid, RTRS_UUID_LEN);
	req->first_conn = msg.first_conn != 0;
	return 0;
}

/**
 * struct rtrs_conn_rsp - CONN_RSP in native form
 * @error:	0 or negative errno
 * @queue_depth: chunks of the session
 * @max_io_size: bytes of data one request can carry
 * @max_hdr_size: bytes for user message and headers in a chunk
 * @new_rkey:	the server hands out a key with every response
 */
struct rtrs_conn_rsp {
	int	error;
	u16	queue_depth;
	u32	max_io_size;
	u32	max_hdr_size;
	bool	new_rkey;
};

/**
 * rtrs_conn_rsp_encode() - lay a connection response (accept or reject) out
 * @msg:	destination, every byte is written
 * @rsp:	source; with an error all other fields are sent as zero
 */
static inline void rtrs_conn_rsp_encode(struct rtrs_wire_conn_rsp *msg,
					const struct rtrs_conn_rsp *rsp)
{
	memset(msg, 0, sizeof(*msg));
	msg->magic = cpu_to_le16(RTRS_MAGIC);
	msg->version = cpu_to_le16(RTRS_VERSION);
	msg->error = cpu_to_le16((u16)rsp->error);
	if (rsp->error)
		return;
	msg->queue_depth = cpu_to_le16(rsp->queue_depth);
	msg->max_io_size = cpu_to_le32(rsp->max_io_size);
	msg->max_hdr_size = cpu_to_le32(rsp->max_hdr_size);
	msg->flags = cpu_to_le32(rsp->new_rkey ? RTRS_FLAG_NEW_RKEY : 0);
}

/* Bits needed to number @n items; 0 for a single one. */
static inline unsigned int rtrs_bits(u32 n)
{
	return n > 1 ? ilog2(n - 1) + 1 : 0;
}

/**
 * rtrs_geometry_ok() - can an immediate address every byte of every chunk?
 * @queue_depth: chunks, 1 .. RTRS_MAX_DEPTH
 * @chunk_size: bytes of a chunk
 */
static inline bool rtrs_geometry_ok(u32 queue_depth, u32 chunk_size)
{
	return queue_depth && queue_depth <= RTRS_MAX_DEPTH &&
	       chunk_size >= RTRS_MIN_CHUNK &&
	       rtrs_bits(queue_depth) + rtrs_bits(chunk_size) <= 28;
}

/*
 * Is it an errno that may go on to the user?  From 512 on they mean something to
 * the kernel (restart the call, the I/O is queued: fatal in a write to sysfs), and
 * ERR_PTR() holds none above 4095.
 */
static inline bool rtrs_errno_ok(int error)
{
	return error < 0 && error > -512;
}

/**
 * rtrs_conn_rsp_decode() - check an accepted connection's response
 * @buf:	private data of the CM reply
 * @len:	its length
 * @geometry:	check and return the session's sizes (cid 0 only)
 * @rsp:	result, valid only on success
 *
 * Return: 0, -EMSGSIZE, -EPROTO, -EINVAL for sizes nobody can work with, or
 * the errno a server put into an accept (which is against the protocol, but
 * says more than any other code); -EPROTO if that is no errno.
 */
static inline int rtrs_conn_rsp_decode(const void *buf, size_t len,
				       bool geometry, struct rtrs_conn_rsp *rsp)
{
	struct rtrs_wire_conn_rsp msg;
	int err;

	if (len < sizeof(msg))
		return -EMSGSIZE;
	memcpy(&msg, buf, sizeof(msg));
	err = rtrs_check_proto(msg.magic, msg.version);
	if (err)
		return err;
	rsp->error = (s16)le16_to_cpu(msg.error);
	if (rsp->error)
		return rtrs_errno_ok(rsp->error) ? rsp->error : -EPROTO;
	rsp->queue_depth = le16_to_cpu(msg.queue_depth);
	rsp->max_io_size = le32_to_cpu(msg.max_io_size);
	rsp->max_hdr_size = le32_to_cpu(msg.max_hdr_size);
	rsp->new_rkey = le32_to_cpu(msg.flags) & RTRS_FLAG_NEW_RKEY;
	if (!geometry)
		return 0;
	if (rsp->max_hdr_size < RTRS_MIN_HDR || rsp->max_hdr_size > RTRS_MAX_HDR)
		return -EINVAL;
	if (rsp->max_io_size < RTRS_MIN_IO || rsp->max_io_size > 1U << 28)
		return -EINVAL;
	if (!rtrs_geometry_ok(rsp->queue_depth,
			      rsp->max_io_size + rsp->max_hdr_size))
		return -EINVAL;
	return 0;
}

/**
 * rtrs_reject_decode() - the errno of a consumer-defined reject
 * @buf:	private data of the reject; NULL is legal
 * @len:	its length
 *
 * Return: a negative errno in any case: the server's own, or -ECONNREFUSED
 * when the message carries none (too short, or a value that is no errno).
 */
static inline int rtrs_reject_decode(const void *buf, size_t len)
{
	struct rtrs_wire_conn_rsp msg;
	int error;

	if (!buf || len < sizeof(msg))
		return -ECONNREFUSED;
	memcpy(&msg, buf, sizeof(msg));
	error = (s16)le16_to_cpu(msg.error);
	return rtrs_errno_ok(error) ? error : -ECONNREFUSED;
}

/*
 * INFO exchange
 */

/**
 * rtrs_name_len() - check a session name
 * @name:	bytes, not necessarily terminated
 * @size:	how many of them there are
 *
 * A name becomes a directory in sysfs on both sides and a word in option
 * strings and logs, hence no slash, no dot, no blank and no control byte.
 *
 * Return: the length, 1 .. RTRS_NAME_LEN - 1, or -EINVAL.
 */
static inline int rtrs_name_len(const char *name, size_t size)
{
	size_t max = size < RTRS_NAME_LEN ? size : RTRS_NAME_LEN;
	size_t i;

	for (i = 0; i < max && name[i]; i++) {
		unsigned char c = name[i];

		if (c <= ' ' || c == 0x7f || c == '/' || c == '.')
			return -EINVAL;
	}
	return i && i < max ? (int)i : -EINVAL;
}

/**
 * rtrs_info_req_encode() - lay INFO_REQ out
 * @msg:	destination, every byte is written
 * @name:	session name, checked by rtrs_name_len()
 */
static inline void rtrs_info_req_encode(struct rtrs_wire_info_req *msg,
					const char *name)
{
	memset(msg, 0, sizeof(*msg));
	msg->type = cpu_to_le16(RTRS_MSG_INFO_REQ);
	memcpy(msg->name, name, strnlen(name, RTRS_NAME_LEN - 1));
}

/**
 * rtrs_info_req_decode() - check INFO_REQ
 * @buf:	received bytes
 * @len:	how many
 * @name:	result: RTRS_NAME_LEN bytes, NUL-terminated
 *
 * Return: 0, -EMSGSIZE, -EPROTO (wrong type) or -EINVAL (name).
 */
static inline int rtrs_info_req_decode(const void *buf, size_t len, char *name)
{
	struct rtrs_wire_info_req msg;
	int n;

	if (len < sizeof(msg))
		return -EMSGSIZE;
	memcpy(&msg, buf, sizeof(msg));
	if (le16_to_cpu(msg.type) != RTRS_MSG_INFO_REQ)
		return -EPROTO;
	n = rtrs_name_len((const char *)msg.name, sizeof(msg.name));
	if (n < 0)
		return n;
	memset(name, 0, RTRS_NAME_LEN);
	memcpy(name, msg.name, n);
	return 0;
}

/* Bytes of INFO_RSP with @n descriptors */
static inline size_t rtrs_info_rsp_size(unsigned int n)
{
	return sizeof(struct rtrs_wire_info_rsp) +
	       n * sizeof(struct rtrs_wire_desc);
}

/**
 * rtrs_info_rsp_encode() - lay the fixed part of INFO_RSP out
 * @msg:	destination; the caller fills desc[] by rtrs_desc_encode()
 * @n:		number of descriptors
 */
static inline void rtrs_info_rsp_encode(struct rtrs_wire_info_rsp *msg, u16 n)
{
	memset(msg, 0, sizeof(*msg));
	msg->type = cpu_to_le16(RTRS_MSG_INFO_RSP);
	msg->sg_cnt = cpu_to_le16(n);
}

/**
 * struct rtrs_desc - a piece of remote memory
 * @addr:	address in the peer's terms, opaque
 * @key:	remote key
 * @len:	bytes
 */
struct rtrs_desc {
	u64	addr;
	u32	key;
	u32	len;
};

static inline void rtrs_desc_encode(struct rtrs_wire_desc *msg,
				    const struct rtrs_desc *d)
{
	msg->addr = cpu_to_le64(d->addr);
	msg->key = cpu_to_le32(d->key);
	msg->len = cpu_to_le32(d->len);
}

static inline void rtrs_desc_decode(const void *buf, struct rtrs_desc *d)
{
	struct rtrs_wire_desc msg;

	memcpy(&msg, buf, sizeof(msg));
	d->addr = le64_to_cpu(msg.addr);
	d->key = le32_to_cpu(msg.key);
	d->len = le32_to_cpu(msg.len);
}

/**
 * struct rtrs_chunk_ref - where the client writes requests of one buffer id
 * @addr:	remote address of the chunk's first byte
 * @key:	remote key; changes with every response if the server said so
 */
struct rtrs_chunk_ref {
	u64	addr;
	u32	key;
};

/**
 * rtrs_info_rsp_decode() - check INFO_RSP and spread it over the chunks
 * @buf:	received bytes
 * @len:	how many
 * @queue_depth: chunks of the session
 * @chunk_size:	bytes of a chunk
 * @chunk:	result: @queue_depth entries, filled even partly on failure
 *
 * Return: 0, -EMSGSIZE, -EPROTO (wrong type) or -EINVAL: the descriptors do
 * not cover exactly the chunks.
 */
static inline int rtrs_info_rsp_decode(const void *buf, size_t len,
				       u32 queue_depth, u32 chunk_size,
				       struct rtrs_chunk_ref *chunk)
{
	struct rtrs_wire_info_rsp msg;
	u32 sg_cnt, k, id = 0;

	if (len < sizeof(msg))
		return -EMSGSIZE;
	memcpy(&msg, buf, sizeof(msg));
	if (le16_to_cpu(msg.type) != RTRS_MSG_INFO_RSP)
		return -EPROTO;
	sg_cnt = le16_to_cpu(msg.sg_cnt);
	if (len < rtrs_info_rsp_size(sg_cnt))
		return -EMSGSIZE;
	if (!sg_cnt || queue_depth % sg_cnt)
		return -EINVAL;
	for (k = 0; k < sg_cnt; k++) {
		struct rtrs_desc d;
		u32 n;

		rtrs_desc_decode((const u8 *)buf + rtrs_info_rsp_size(k), &d);
		if (!d.len || d.len % chunk_size || d.addr + d.len < d.addr)
			return -EINVAL;
		n = d.len / chunk_size;
		if (n > queue_depth - id)
			return -EINVAL;
		for (; n; n--, id++, d.addr += chunk_size) {
			chunk[id].addr = d.addr;
			chunk[id].key = d.key;
		}
	}
	return id == queue_depth ? 0 : -EINVAL;
}

/*
 * Immediates, in native byte order; the transport carries them big endian.
 */

enum rtrs_imm_type {
	RTRS_IMM_IO_REQ		= 0,
	RTRS_IMM_IO_RSP		= 1,
	RTRS_IMM_IO_RSP_INV	= 2,	/* a SEND_WITH_INV preceded it */
	RTRS_IMM_HB_MSG		= 8,
	RTRS_IMM_HB_ACK		= 9,
};

#define RTRS_IMM_PAYLOAD	0x0FFFFFFFU
#define RTRS_IMM_ID_BITS	19
#define RTRS_IMM_MAX_ERRNO	0x1FF

static inline u32 rtrs_imm(enum rtrs_imm_type type, u32 payload)
{
	return (u32)type << 28 | (payload & RTRS_IMM_PAYLOAD);
}

static inline unsigned int rtrs_imm_type(u32 imm)
{
	return imm >> 28;
}

/**
 * rtrs_io_req_imm() - the immediate of a request
 * @queue_depth: chunks of the session; it alone decides the split
 * @id:		buffer id, below @queue_depth
 * @off:	offset of the RTRS header in the chunk
 */
static inline u32 rtrs_io_req_imm(u32 queue_depth, u32 id, u32 off)
{
	return rtrs_imm(RTRS_IMM_IO_REQ,
			id << (28 - rtrs_bits(queue_depth)) | off);
}

/**
 * rtrs_io_req_imm_decode() - check the immediate of a request
 * @imm:	immediate of type RTRS_IMM_IO_REQ
 * @queue_depth: chunks of the session
 * @chunk_size:	bytes of a chunk
 * @id:		result: buffer id
 * @off:	result: offset of the header
 *
 * Return: 0 or -EINVAL: id or offset out of bounds.
 */
static inline int rtrs_io_req_imm_decode(u32 imm, u32 queue_depth,
					 u32 chunk_size, u32 *id, u32 *off)
{
	unsigned int mem_bits = 28 - rtrs_bits(queue_depth);
	u32 payload = imm & RTRS_IMM_PAYLOAD;

	*id = payload >> mem_bits;
	*off = payload & ((1U << mem_bits) - 1);
	return *id < queue_depth && *off < chunk_size ? 0 : -EINVAL;
}

/**
 * rtrs_io_rsp_imm() - the immediate of a response
 * @id:		buffer id
 * @error:	0 or negative errno; what 9 bits cannot hold, and what is no
 *		errno at all, is sent as -EIO
 * @inv:	a SEND_WITH_INV went before
 */
static inline u32 rtrs_io_rsp_imm(u32 id, int error, bool inv)
{
	u32 e = -error;

	if (error > 0 || e > RTRS_IMM_MAX_ERRNO)
		e = EIO;
	return rtrs_imm(inv ? RTRS_IMM_IO_RSP_INV : RTRS_IMM_IO_RSP,
			e << RTRS_IMM_ID_BITS |
			(id & ((1U << RTRS_IMM_ID_BITS) - 1)));
}

/**
 * rtrs_io_rsp_imm_decode() - check the immediate of a response
 * @imm:	immediate of type RTRS_IMM_IO_RSP or RTRS_IMM_IO_RSP_INV
 * @queue_depth: chunks of the session
 * @id:		result: buffer id
 * @error:	result: 0 or negative errno
 *
 * Return: 0 or -EINVAL: id out of bounds.
 */
static inline int rtrs_io_rsp_imm_decode(u32 imm, u32 queue_depth, u32 *id,
					 int *error)
{
	u32 payload = imm & RTRS_IMM_PAYLOAD;

	*id = payload & ((1U << RTRS_IMM_ID_BITS) - 1);
	*error = -(int)(payload >> RTRS_IMM_ID_BITS);
	return *id < queue_depth ? 0 : -EINVAL;
}

/*
 * Requests.  A chunk holds: data | user message | RTRS header.
 */

/**
 * rtrs_write_hdr_encode() - lay a WRITE header out
 * @buf:	destination
 * @usr_len:	bytes of user message before it
 *
 * Return: bytes written.
 */
static inline u32 rtrs_write_hdr_encode(void *buf, u16 usr_len)
{
	struct rtrs_wire_write_hdr hdr = {
		.type = cpu_to_le16(RTRS_MSG_WRITE),
		.usr_len = cpu_to_le16(usr_len),
	};

	memcpy(buf, &hdr, sizeof(hdr));
	return sizeof(hdr);
}

/**
 * rtrs_read_hdr_encode() - lay a READ header out
 * @buf:	destination, RTRS_MAX_IO_HDR bytes
 * @usr_len:	bytes of user message before it
 * @need_inval:	ask the server to invalidate the key
 * @desc:	where the server shall write, NULL for a READ without data
 *
 * Return: bytes written.
 */
static inline u32 rtrs_read_hdr_encode(void *buf, u16 usr_len, bool need_inval,
				       const struct rtrs_desc *desc)
{
	struct rtrs_wire_read_hdr hdr = {
		.type = cpu_to_le16(RTRS_MSG_READ),
		.usr_len = cpu_to_le16(usr_len),
		.flags = cpu_to_le16(need_inval && desc ?
				     RTRS_FLAG_NEED_INVAL : 0),
		.sg_cnt = cpu_to_le16(desc ? 1 : 0),
	};
	struct rtrs_wire_desc d;

	memcpy(buf, &hdr, sizeof(hdr));
	if (!desc)
		return sizeof(hdr);
	rtrs_desc_encode(&d, desc);
	memcpy((u8 *)buf + sizeof(hdr), &d, sizeof(d));
	return sizeof(hdr) + sizeof(d);
}

/**
 * rtrs_request_fits() - does a request fit the server's chunk?
 * @dir:	direction
 * @usr_len:	bytes of user message
 * @data_len:	bytes of data
 * @max_io_size: the server's limit for data
 * @max_hdr_size: the server's limit for message and header
 *
 * Return: 0 or -EMSGSIZE.
 */
static inline int rtrs_request_fits(enum rtrs_dir dir, u32 usr_len,
				    u32 data_len, u32 max_io_size,
				    u32 max_hdr_size)
{
	u32 hdr = sizeof(struct rtrs_wire_write_hdr);

	if (dir == RTRS_DIR_READ)
		hdr = RTRS_MAX_IO_HDR;
	if (data_len > max_io_size || usr_len > max_hdr_size - hdr)
		return -EMSGSIZE;
	return 0;
}

/**
 * struct rtrs_io_hdr - header of a request in native form
 * @dir:	direction
 * @usr_len:	bytes of user message, directly before the header
 * @data_len:	bytes of data, at the start of the chunk
 * @has_desc:	a READ with data; @desc is valid
 * @need_inval:	answer with SEND_WITH_INV of @desc.key
 * @desc:	where to write the data
 */
struct rtrs_io_hdr {
	enum rtrs_dir	dir;
	u32		usr_len;
	u32		data_len;
	bool		has_desc;
	bool		need_inval;
	struct rtrs_desc desc;
};

static inline int rtrs_read_hdr_decode(const void *buf, size_t len,
				       struct rtrs_io_hdr *io)
{
	struct rtrs_wire_read_hdr hdr;
	u16 flags, sg_cnt;

	if (len < sizeof(hdr))
		return -EPROTO;
	memcpy(&hdr, buf, sizeof(hdr));
	flags = le16_to_cpu(hdr.flags);
	sg_cnt = le16_to_cpu(hdr.sg_cnt);
	if (sg_cnt > 1)
		return -EINVAL;
	if (sg_cnt) {
		if (len < sizeof(hdr) + sizeof(struct rtrs_wire_desc))
			return -EPROTO;
		rtrs_desc_decode((const u8 *)buf + sizeof(hdr), &io->desc);
		io->has_desc = true;
		io->need_inval = flags & RTRS_FLAG_NEED_INVAL;
	}
	return flags & ~RTRS_FLAG_NEED_INVAL ? -EINVAL : 0;
}

/**
 * rtrs_io_hdr_decode() - check the header of a request
 * @buf:	private copy of the chunk's bytes from @off on
 * @len:	bytes in @buf: the smaller of RTRS_MAX_IO_HDR and what the chunk has
 * @off:	offset of the header in the chunk
 * @max_io_size: what this server announced
 * @max_hdr_size: what this server announced
 * @io:		result; on -EINVAL @dir, @has_desc, @need_inval and @desc.key
 *		are still right, so that the request can be answered
 *
 * Return: 0; -EINVAL: answer the request with this errno; -EPROTO: the peer
 * does not speak the protocol, close the path.
 */
static inline int rtrs_io_hdr_decode(const void *buf, size_t len, u32 off,
				     u32 max_io_size, u32 max_hdr_size,
				     struct rtrs_io_hdr *io)
{
	struct rtrs_wire_write_hdr hdr;
	int err = 0;

	memset(io, 0, sizeof(*io));
	if (len < sizeof(hdr))
		return -EPROTO;
	memcpy(&hdr, buf, sizeof(hdr));
	switch (le16_to_cpu(hdr.type)) {
	case RTRS_MSG_WRITE:
		io->dir = RTRS_DIR_WRITE;
		break;
	case RTRS_MSG_READ:
		io->dir = RTRS_DIR_READ;
		err = rtrs_read_hdr_decode(buf, len, io);
		break;
	default:
		return -EPROTO;
	}
	io->usr_len = le16_to_cpu(hdr.usr_len);
	if (err)
		return err;
	if (io->usr_len > off || io->usr_len > max_hdr_size)
		return -EINVAL;
	io->data_len = off - io->usr_len;
	if (io->data_len > max_io_size)
		return -EINVAL;
	/* The answer is exactly the data asked for: nothing stale leaks. */
	if (io->dir == RTRS_DIR_READ &&
	    io->data_len != (io->has_desc ? io->desc.len : 0))
		return -EINVAL;
	if (io->has_desc && !io->desc.len)
		return -EINVAL;
	return 0;
}

/*
 * RKEY_RSP
 */

static inline void rtrs_rkey_rsp_encode(struct rtrs_wire_rkey_rsp *msg,
					u16 buf_id, u32 rkey)
{
	msg->type = cpu_to_le16(RTRS_MSG_RKEY_RSP);
	msg->buf_id = cpu_to_le16(buf_id);
	msg->rkey = cpu_to_le32(rkey);
}

/**
 * rtrs_rkey_rsp_decode() - check a key message
 * @buf:	received bytes
 * @len:	how many
 * @queue_depth: chunks of the session
 * @buf_id:	result: the chunk
 * @rkey:	result: its new key
 *
 * Return: 0, -EMSGSIZE, -EPROTO or -EINVAL.
 */
static inline int rtrs_rkey_rsp_decode(const void *buf, size_t len,
				       u32 queue_depth, u32 *buf_id, u32 *rkey)
{
	struct rtrs_wire_rkey_rsp msg;

	if (len < sizeof(msg))
		return -EMSGSIZE;
	memcpy(&msg, buf, sizeof(msg));
	if (le16_to_cpu(msg.type) != RTRS_MSG_RKEY_RSP)
		return -EPROTO;
	*buf_id = le16_to_cpu(msg.buf_id);
	*rkey = le32_to_cpu(msg.rkey);
	return *buf_id < queue_depth ? 0 : -EINVAL;
}

#endif /* RTRS_WIRE_H */
