/* SPDX-License-Identifier: GPL-2.0 */
/*
 * RNBD on the wire: layouts, operations and bounds as pure functions on bytes.
 *
 * RNBD messages are the user messages (and, for answers, the data) of RTRS
 * requests.  The same rules hold as in rtrs/wire.h: private copy in, checked
 * native structure or errno out; also compiled on the host.
 *
 * Errors of the decoders:
 *   -EINVAL	 too short, wrong type, or a field out of its bounds
 *   -EOPNOTSUPP an operation nobody defined
 */
#ifndef RNBD_WIRE_H
#define RNBD_WIRE_H

#include <linux/types.h>
#include <linux/build_bug.h>
#include <linux/errno.h>
#include <linux/string.h>
#include <asm/byteorder.h>

#include "rtrs/wire.h"

#define RNBD_VERSION_MAJOR	2
#define RNBD_NAME_LEN		255	/* device name with its NUL */
#define RNBD_SECTOR_SHIFT	9	/* sectors on the wire have 512 bytes */

enum rnbd_msg_type {
	RNBD_MSG_SESS_INFO	= 0,
	RNBD_MSG_SESS_INFO_RSP	= 1,
	RNBD_MSG_OPEN		= 2,
	RNBD_MSG_OPEN_RSP	= 3,
	RNBD_MSG_IO		= 4,
	RNBD_MSG_CLOSE		= 5,
};

enum rnbd_access_mode {
	RNBD_ACCESS_RO		= 0,
	RNBD_ACCESS_RW		= 1,
	RNBD_ACCESS_MIGRATION	= 2,
};

enum rnbd_op {
	RNBD_OP_READ		= 0,
	RNBD_OP_WRITE		= 1,
	RNBD_OP_FLUSH		= 2,
	RNBD_OP_DISCARD		= 3,
	RNBD_OP_SECURE_ERASE	= 4,
	RNBD_OP_WRITE_ZEROES	= 5,
};

#define RNBD_OP_MASK		0xFFU
#define RNBD_F_SYNC		0x100U
#define RNBD_F_FUA		0x200U
#define RNBD_F_PREFLUSH		0x400U
#define RNBD_F_NOUNMAP		0x800U

/* cache_policy of OPEN_RSP */
#define RNBD_CACHE_FUA		0x1
#define RNBD_CACHE_WRITEBACK	0x2

/*
 * Layouts.  Padding and reserved bytes are sent as zero and ignored when
 * received: mainline clients leave garbage in them.
 */

struct rnbd_wire_hdr {
	__le16	type;
	__le16	padding;
};
static_assert(sizeof(struct rnbd_wire_hdr) == 4);

/* SESS_INFO and SESS_INFO_RSP */
struct rnbd_wire_sess_info {
	struct rnbd_wire_hdr hdr;
	u8	ver;
	u8	reserved[31];
};
static_assert(sizeof(struct rnbd_wire_sess_info) == 36);

struct rnbd_wire_open {
	struct rnbd_wire_hdr hdr;
	u8	access_mode;
	u8	reserved1;
	u8	dev_name[RNBD_NAME_LEN];
	u8	reserved2[3];
};
static_assert(sizeof(struct rnbd_wire_open) == 264);
static_assert(offsetof(struct rnbd_wire_open, dev_name) == 6);

struct rnbd_wire_open_rsp {
	struct rnbd_wire_hdr hdr;
	__le32	device_id;
	__le64	nsectors;
	__le32	max_hw_sectors;
	__le32	max_write_zeroes_sectors;
	__le32	max_discard_sectors;
	__le32	discard_granularity;
	__le32	discard_alignment;
	__le16	physical_block_size;
	__le16	logical_block_size;
	__le16	max_segments;
	__le16	secure_discard;
	u8	rotational;
	u8	cache_policy;
	u8	reserved[10];
};
static_assert(sizeof(struct rnbd_wire_open_rsp) == 56);
static_assert(offsetof(struct rnbd_wire_open_rsp, physical_block_size) == 36);
static_assert(offsetof(struct rnbd_wire_open_rsp, cache_policy) == 45);

struct rnbd_wire_close {
	struct rnbd_wire_hdr hdr;
	__le32	device_id;
};
static_assert(sizeof(struct rnbd_wire_close) == 8);

struct rnbd_wire_io {
	struct rnbd_wire_hdr hdr;
	__le32	device_id;
	__le64	sector;
	__le32	rw;
	__le32	bi_size;
	__le16	prio;
	u8	padding[6];	/* 64-bit peers send the rounded-up size */
};
static_assert(sizeof(struct rnbd_wire_io) == 32);
static_assert(offsetof(struct rnbd_wire_io, prio) == 24);

#define RNBD_IO_MIN_LEN		24	/* without prio: 32-bit peers */
#define RNBD_IO_PRIO_LEN	26	/* with it */

/**
 * rnbd_msg_type() - type of a message
 * @buf:	received bytes
 * @len:	how many
 *
 * Return: the type word, or -EINVAL if there is none.
 */
static inline int rnbd_msg_type(const void *buf, size_t len)
{
	struct rnbd_wire_hdr hdr;

	if (len < sizeof(hdr))
		return -EINVAL;
	memcpy(&hdr, buf, sizeof(hdr));
	return le16_to_cpu(hdr.type);
}

/*
 * SESS_INFO
 */

/**
 * rnbd_sess_info_encode() - lay SESS_INFO or its answer out
 * @msg:	destination, every byte is written
 * @type:	RNBD_MSG_SESS_INFO or RNBD_MSG_SESS_INFO_RSP
 * @ver:	major version
 */
static inline void rnbd_sess_info_encode(struct rnbd_wire_sess_info *msg,
					 enum rnbd_msg_type type, u8 ver)
{
	memset(msg, 0, sizeof(*msg));
	msg->hdr.type = cpu_to_le16(type);
	msg->ver = ver;
}

/**
 * rnbd_sess_info_decode() - check SESS_INFO or its answer
 * @buf:	received bytes
 * @len:	how many
 * @type:	which of the two
 * @ver:	result: the smaller of the peer's major version and ours
 *
 * Return: 0 or -EINVAL (also for version 0, which nobody speaks).
 */
static inline int rnbd_sess_info_decode(const void *buf, size_t len,
					enum rnbd_msg_type type, u8 *ver)
{
	struct rnbd_wire_sess_info msg;

	if (len < sizeof(msg))
		return -EINVAL;
	memcpy(&msg, buf, sizeof(msg));
	if (le16_to_cpu(msg.hdr.type) != type || !msg.ver)
		return -EINVAL;
	*ver = msg.ver < RNBD_VERSION_MAJOR ? msg.ver : RNBD_VERSION_MAJOR;
	return 0;
}

/*
 * OPEN
 */

/**
 * struct rnbd_open - OPEN in native form
 * @mode:	access mode
 * @name:	device name below the server's search path, NUL-terminated
 */
struct rnbd_open {
	enum rnbd_access_mode mode;
	char	name[RNBD_NAME_LEN];
};

/**
 * rnbd_name_check() - check a device name
 * @name:	bytes, not necessarily terminated
 * @size:	how many of them there are
 *
 * Return: the length, 1 .. RNBD_NAME_LEN - 1, or -EINVAL: empty, not
 * terminated, control bytes, or ".." anywhere in it.
 */
static inline int rnbd_name_check(const char *name, size_t size)
{
	size_t max = size < RNBD_NAME_LEN ? size : RNBD_NAME_LEN;
	size_t i;

	for (i = 0; i < max && name[i]; i++) {
		unsigned char c = name[i];

		if (c < ' ' || c == 0x7f)
			return -EINVAL;
		if (c == '.' && i && name[i - 1] == '.')
			return -EINVAL;
	}
	return i && i < max ? (int)i : -EINVAL;
}

/**
 * rnbd_open_encode() - lay OPEN out
 * @msg:	destination, every byte is written
 * @mode:	access mode
 * @name:	device name, checked by rnbd_name_check()
 */
static inline void rnbd_open_encode(struct rnbd_wire_open *msg,
				    enum rnbd_access_mode mode,
				    const char *name)
{
	memset(msg, 0, sizeof(*msg));
	msg->hdr.type = cpu_to_le16(RNBD_MSG_OPEN);
	msg->access_mode = mode;
	memcpy(msg->dev_name, name, strnlen(name, RNBD_NAME_LEN - 1));
}

/**
 * rnbd_open_decode() - check OPEN
 * @buf:	received bytes
 * @len:	how many
 * @open:	result
 *
 * Return: 0 or -EINVAL.
 */
static inline int rnbd_open_decode(const void *buf, size_t len,
				   struct rnbd_open *open)
{
	struct rnbd_wire_open msg;
	int n;

	if (len < sizeof(msg))
		return -EINVAL;
	memcpy(&msg, buf, sizeof(msg));
	if (le16_to_cpu(msg.hdr.type) != RNBD_MSG_OPEN ||
	    msg.access_mode > RNBD_ACCESS_MIGRATION)
		return -EINVAL;
	n = rnbd_name_check((const char *)msg.dev_name, sizeof(msg.dev_name));
	if (n < 0)
		return n;
	open->mode = msg.access_mode;
	memset(open->name, 0, sizeof(open->name));
	memcpy(open->name, msg.dev_name, n);
	return 0;
}

/**
 * struct rnbd_open_rsp - OPEN_RSP in native form
 * @device_id:	handle for IO and CLOSE
 * @nsectors:	size in 512-byte sectors
 * @max_hw_sectors: 512-byte sectors; 0xFFFFFFFF occurs
 * @max_write_zeroes_sectors: 512-byte sectors, 0 = unsupported
 * @max_discard_sectors: 512-byte sectors, 0 = unsupported
 * @discard_granularity: bytes
 * @discard_alignment: bytes
 * @physical_block_size: bytes
 * @logical_block_size: bytes
 * @max_segments: count
 * @secure_erase: supported
 * @fua:	the device has FUA
 * @writeback:	the device has a volatile write cache
 */
struct rnbd_open_rsp {
	u32	device_id;
	u64	nsectors;
	u32	max_hw_sectors;
	u32	max_write_zeroes_sectors;
	u32	max_discard_sectors;
	u32	discard_granularity;
	u32	discard_alignment;
	u32	physical_block_size;
	u32	logical_block_size;
	u32	max_segments;
	bool	secure_erase;
	bool	fua;
	bool	writeback;
};

static inline u16 rnbd_cap16(u32 v)
{
	return v > 0xFFFF ? 0xFFFF : v;
}

/**
 * rnbd_open_rsp_encode() - lay OPEN_RSP out
 * @msg:	destination, every byte is written
 * @rsp:	source; block sizes must be below 65536
 */
static inline void rnbd_open_rsp_encode(struct rnbd_wire_open_rsp *msg,
					const struct rnbd_open_rsp *rsp)
{
	memset(msg, 0, sizeof(*msg));
	msg->hdr.type = cpu_to_le16(RNBD_MSG_OPEN_RSP);
	msg->device_id = cpu_to_le32(rsp->device_id);
	msg->nsectors = cpu_to_le64(rsp->nsectors);
	msg->max_hw_sectors = cpu_to_le32(rsp->max_hw_sectors);
	msg->max_write_zeroes_sectors =
		cpu_to_le32(rsp->max_write_zeroes_sectors);
	msg->max_discard_sectors = cpu_to_le32(rsp->max_discard_sectors);
	msg->discard_granularity = cpu_to_le32(rsp->discard_granularity);
	msg->discard_alignment = cpu_to_le32(rsp->discard_alignment);
	msg->physical_block_size = cpu_to_le16((u16)rsp->physical_block_size);
	msg->logical_block_size = cpu_to_le16((u16)rsp->logical_block_size);
	msg->max_segments = cpu_to_le16(rnbd_cap16(rsp->max_segments));
	/* Clients only test for non-zero; a count would be cut to 16 bits. */
	msg->secure_discard = cpu_to_le16(rsp->secure_erase ? 1 : 0);
	msg->cache_policy = (rsp->fua ? RNBD_CACHE_FUA : 0) |
			    (rsp->writeback ? RNBD_CACHE_WRITEBACK : 0);
}

static inline bool rnbd_block_size_ok(u32 size)
{
	return size >= 512 && size <= 32768 && !(size & (size - 1));
}

/**
 * rnbd_open_rsp_decode() - check OPEN_RSP
 * @buf:	received bytes
 * @len:	how many
 * @rsp:	result, ready for the block layer: a physical block size that
 *		is none becomes the logical one, odd discard limits are dropped
 *
 * Return: 0 or -EINVAL: nothing can be made of the device.
 */
static inline int rnbd_open_rsp_decode(const void *buf, size_t len,
				       struct rnbd_open_rsp *rsp)
{
	struct rnbd_wire_open_rsp msg;

	if (len < sizeof(msg))
		return -EINVAL;
	memcpy(&msg, buf, sizeof(msg));
	rsp->device_id = le32_to_cpu(msg.device_id);
	rsp->nsectors = le64_to_cpu(msg.nsectors);
	rsp->max_hw_sectors = le32_to_cpu(msg.max_hw_sectors);
	rsp->max_write_zeroes_sectors =
		le32_to_cpu(msg.max_write_zeroes_sectors);
	rsp->max_discard_sectors = le32_to_cpu(msg.max_discard_sectors);
	rsp->discard_granularity = le32_to_cpu(msg.discard_granularity);
	rsp->discard_alignment = le32_to_cpu(msg.discard_alignment);
	rsp->physical_block_size = le16_to_cpu(msg.physical_block_size);
	rsp->logical_block_size = le16_to_cpu(msg.logical_block_size);
	rsp->max_segments = le16_to_cpu(msg.max_segments);
	rsp->secure_erase = msg.secure_discard != 0;
	rsp->fua = msg.cache_policy & RNBD_CACHE_FUA;
	rsp->writeback = msg.cache_policy & RNBD_CACHE_WRITEBACK;

	if (le16_to_cpu(msg.hdr.type) != RNBD_MSG_OPEN_RSP)
		return -EINVAL;
	if (!rnbd_block_size_ok(rsp->logical_block_size))
		return -EINVAL;
	if (rsp->nsectors >= 1ULL << (63 - RNBD_SECTOR_SHIFT))
		return -EINVAL;
	if (!rnbd_block_size_ok(rsp->physical_block_size) ||
	    rsp->physical_block_size < rsp->logical_block_size)
		rsp->physical_block_size = rsp->logical_block_size;
	if (rsp->discard_granularity % rsp->logical_block_size ||
	    (rsp->max_discard_sectors && !rsp->discard_granularity))
		rsp->discard_granularity = rsp->logical_block_size;
	if (rsp->discard_alignment &&
	    (!rsp->discard_granularity ||
	     rsp->discard_alignment >= rsp->discard_granularity))
		rsp->discard_alignment = 0;
	return 0;
}

/*
 * CLOSE
 */

static inline void rnbd_close_encode(struct rnbd_wire_close *msg, u32 device_id)
{
	memset(msg, 0, sizeof(*msg));
	msg->hdr.type = cpu_to_le16(RNBD_MSG_CLOSE);
	msg->device_id = cpu_to_le32(device_id);
}

/**
 * rnbd_close_decode() - check CLOSE
 * @buf:	received bytes
 * @len:	how many
 * @device_id:	result
 *
 * Return: 0 or -EINVAL.
 */
static inline int rnbd_close_decode(const void *buf, size_t len, u32 *device_id)
{
	struct rnbd_wire_close msg;

	if (len < sizeof(msg))
		return -EINVAL;
	memcpy(&msg, buf, sizeof(msg));
	if (le16_to_cpu(msg.hdr.type) != RNBD_MSG_CLOSE)
		return -EINVAL;
	*device_id = le32_to_cpu(msg.device_id);
	return 0;
}

/*
 * IO
 */

/**
 * struct rnbd_io - IO in native form
 * @device_id:	from OPEN_RSP
 * @sector:	start in 512-byte sectors; no meaning for FLUSH
 * @op:		operation
 * @flags:	RNBD_F_*; a decoder leaves only those that make sense for @op
 * @size:	bytes the operation covers, 0 for FLUSH
 * @prio:	Linux I/O priority value, 0 = none
 */
struct rnbd_io {
	u32	device_id;
	u64	sector;
	enum rnbd_op op;
	u32	flags;
	u32	size;
	u16	prio;
};

/**
 * rnbd_io_dir() - the RTRS direction an operation travels in
 * @op:		operation
 *
 * Data-less erase-like operations are WRITEs, FLUSH is a READ: the direction
 * follows the parity of the Linux block operation.
 */
static inline enum rtrs_dir rnbd_io_dir(enum rnbd_op op)
{
	return op == RNBD_OP_READ || op == RNBD_OP_FLUSH ?
		RTRS_DIR_READ : RTRS_DIR_WRITE;
}

static inline bool rnbd_op_has_data(enum rnbd_op op)
{
	return op == RNBD_OP_READ || op == RNBD_OP_WRITE;
}

/**
 * rnbd_io_encode() - lay IO out
 * @msg:	destination, every byte is written
 * @io:		source
 */
static inline void rnbd_io_encode(struct rnbd_wire_io *msg,
				  const struct rnbd_io *io)
{
	memset(msg, 0, sizeof(*msg));
	msg->hdr.type = cpu_to_le16(RNBD_MSG_IO);
	msg->device_id = cpu_to_le32(io->device_id);
	msg->sector = cpu_to_le64(io->sector);
	msg->rw = cpu_to_le32((u32)io->op | io->flags);
	msg->bi_size = cpu_to_le32(io->size);
	msg->prio = cpu_to_le16(io->prio);
}

/* Flags with a meaning for an operation; everything else is masked out. */
static inline u32 rnbd_op_flags(enum rnbd_op op)
{
	switch (op) {
	case RNBD_OP_WRITE:
		return RNBD_F_SYNC | RNBD_F_FUA | RNBD_F_PREFLUSH;
	case RNBD_OP_WRITE_ZEROES:
		return RNBD_F_SYNC | RNBD_F_NOUNMAP;
	default:
		return RNBD_F_SYNC;
	}
}

/**
 * rnbd_io_decode() - check IO against the request that carried it
 * @buf:	the user message
 * @len:	its length
 * @dir:	direction of the RTRS request
 * @data_len:	bytes of data of the RTRS request
 * @io:		result
 *
 * Alignment to the device's block size and the device's end are not known
 * here and are the caller's to check.
 *
 * Return: 0, -EINVAL or -EOPNOTSUPP.
 */
static inline int rnbd_io_decode(const void *buf, size_t len, enum rtrs_dir dir,
				 u32 data_len, struct rnbd_io *io)
{
	struct rnbd_wire_io msg = {};
	u32 rw;

	if (len < RNBD_IO_MIN_LEN)
		return -EINVAL;
	memcpy(&msg, buf, len < sizeof(msg) ? len : sizeof(msg));
	if (le16_to_cpu(msg.hdr.type) != RNBD_MSG_IO)
		return -EINVAL;
	rw = le32_to_cpu(msg.rw);
	if ((rw & RNBD_OP_MASK) > RNBD_OP_WRITE_ZEROES)
		return -EOPNOTSUPP;
	io->op = rw & RNBD_OP_MASK;
	io->flags = rw & rnbd_op_flags(io->op);
	io->device_id = le32_to_cpu(msg.device_id);
	io->sector = le64_to_cpu(msg.sector);
	io->size = le32_to_cpu(msg.bi_size);
	io->prio = len >= RNBD_IO_PRIO_LEN ? le16_to_cpu(msg.prio) : 0;

	if (dir != rnbd_io_dir(io->op))
		return -EINVAL;
	if (rnbd_op_has_data(io->op))
		return data_len && data_len == io->size &&
		       !(data_len & 511) ? 0 : -EINVAL;
	if (data_len)
		return -EINVAL;
	/* FLUSH covers the device: sector and size have no meaning. */
	if (io->op == RNBD_OP_FLUSH) {
		io->sector = 0;
		io->size = 0;
		return 0;
	}
	return io->size && !(io->size & 511) ? 0 : -EINVAL;
}

#endif /* RNBD_WIRE_H */
