// SPDX-License-Identifier: GPL-2.0
/*
 * The header of a request.  Input: offset (4 bytes), max_io_size / 4 KiB - 1
 * (2 bytes), max_hdr_size / 4 KiB - 1 (1 byte), the chunk's bytes from there.
 */
#include "fuzz.h"

static void accepted(const u8 *data, u32 off, u32 max_io, u32 max_hdr,
		     const struct rtrs_io_hdr *io)
{
	u8 buf[RTRS_MAX_IO_HDR];
	u32 n;

	REQUIRE((u64)io->data_len + io->usr_len == off);
	REQUIRE(io->data_len <= max_io && io->usr_len <= max_hdr);
	if (io->dir == RTRS_DIR_WRITE) {
		REQUIRE(!io->has_desc && !io->need_inval);
		n = rtrs_write_hdr_encode(buf, io->usr_len);
	} else {
		REQUIRE(io->has_desc == (io->data_len != 0));
		REQUIRE(!io->has_desc || io->desc.len == io->data_len);
		REQUIRE(io->has_desc || !io->need_inval);
		n = rtrs_read_hdr_encode(buf, io->usr_len, io->need_inval,
					 io->has_desc ? &io->desc : NULL);
		/* NEED_INVAL without a descriptor is read as absent */
		if (!io->has_desc)
			buf[4] = data[4];
	}
	REQUIRE(!memcmp(buf, data, n));
}

int LLVMFuzzerTestOneInput(const u8 *data, size_t size)
{
	u32 off = take(&data, &size, 4);
	u32 max_io = 4096 * (1 + take(&data, &size, 2));
	u32 max_hdr = 4096 * (1 + take(&data, &size, 1) % 16);
	struct rtrs_io_hdr io;
	size_t len;
	int err;

	off %= max_io + max_hdr;
	len = size < RTRS_MAX_IO_HDR ? size : RTRS_MAX_IO_HDR;
	if (len > max_io + max_hdr - off)
		len = max_io + max_hdr - off;
	memset(&io, 0xee, sizeof(io));
	err = rtrs_io_hdr_decode(data, len, off, max_io, max_hdr, &io);
	switch (err) {
	case 0:
		accepted(data, off, max_io, max_hdr, &io);
		break;
	case -EPROTO:
		REQUIRE(len < 24 || (le(data, 2) != 2 && le(data, 2) != 3));
		break;
	case -EINVAL:
		/* enough is known to answer */
		REQUIRE(io.dir == (le(data, 2) == 2 ? RTRS_DIR_WRITE :
						      RTRS_DIR_READ));
		REQUIRE(!io.has_desc || io.dir == RTRS_DIR_READ);
		REQUIRE(!io.need_inval || io.has_desc);
		REQUIRE(!io.has_desc || io.desc.key == le(data + 16, 4));
		break;
	default:
		REQUIRE(!"a defined result");
	}
	return 0;
}
