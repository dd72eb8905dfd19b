// SPDX-License-Identifier: GPL-2.0
/* IO.  Input: direction (1 byte), data length (4 bytes), the user message. */
#include "fuzz.h"

static void accepted(const u8 *data, size_t size, enum rtrs_dir dir,
		     u32 data_len, const struct rnbd_io *io)
{
	struct rnbd_wire_io msg;
	struct rnbd_io again;

	REQUIRE(size >= 24 && le(data, 2) == 4);
	REQUIRE(io->op <= 5 && io->op == data[16]);
	/* READ and FLUSH ask for an answer, all others bring something */
	REQUIRE((io->op == 0 || io->op == 2) == (dir == RTRS_DIR_READ));
	if (io->op <= 1)
		REQUIRE(data_len && data_len == io->size);
	else
		REQUIRE(!data_len);
	REQUIRE(io->size % 512 == 0);
	REQUIRE(io->op == 2 ? !io->size && !io->sector :
		io->size == le(data + 20, 4));
	/* a flag gets through only where it means something */
	REQUIRE(!(io->flags & ~(le(data + 16, 4) & 0xf00)));
	REQUIRE(io->op == 1 || !(io->flags & 0x600));
	REQUIRE(io->op == 5 || !(io->flags & 0x800));
	REQUIRE(size >= 26 || !io->prio);

	rnbd_io_encode(&msg, io);
	memset(&again, 0, sizeof(again));
	REQUIRE(!rnbd_io_decode(&msg, sizeof(msg), dir, data_len, &again));
	REQUIRE(!memcmp(io, &again, sizeof(again)));
}

int LLVMFuzzerTestOneInput(const u8 *data, size_t size)
{
	enum rtrs_dir dir = take(&data, &size, 1) & 1 ? RTRS_DIR_WRITE :
						       RTRS_DIR_READ;
	u32 data_len = take(&data, &size, 4);
	struct rnbd_io io;
	int err;

	memset(&io, 0, sizeof(io));
	err = rnbd_io_decode(data, size, dir, data_len, &io);
	if (!err)
		accepted(data, size, dir, data_len, &io);
	else if (err == -EOPNOTSUPP)
		REQUIRE(size >= 24 && le(data, 2) == 4 && data[16] > 5);
	else
		REQUIRE(err == -EINVAL);
	return 0;
}
