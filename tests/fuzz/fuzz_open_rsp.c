// SPDX-License-Identifier: GPL-2.0
/* OPEN_RSP.  Input: the answer's data. */
#include "fuzz.h"

static bool block_size(u32 n)
{
	return n == 512 || n == 1024 || n == 2048 || n == 4096 || n == 8192 ||
	       n == 16384 || n == 32768;
}

int LLVMFuzzerTestOneInput(const u8 *data, size_t size)
{
	struct rnbd_open_rsp rsp, again;
	struct rnbd_wire_open_rsp msg;
	int err;

	memset(&rsp, 0, sizeof(rsp));
	memset(&again, 0, sizeof(again));
	err = rnbd_open_rsp_decode(data, size, &rsp);
	REQUIRE(err == 0 || err == -EINVAL);
	if (err) {
		/* only for a reason */
		REQUIRE(size < 56 || le(data, 2) != 3 ||
			!block_size(le(data + 38, 2)) ||
			le(data + 12, 4) >= 1U << 22);
		return 0;
	}
	REQUIRE(size >= 56 && le(data, 2) == 3);
	REQUIRE(block_size(rsp.logical_block_size));
	REQUIRE(block_size(rsp.physical_block_size));
	REQUIRE(rsp.physical_block_size >= rsp.logical_block_size);
	REQUIRE((s64)(rsp.nsectors << 9) >= 0);
	REQUIRE(rsp.nsectors << 9 >> 9 == rsp.nsectors);
	REQUIRE(rsp.discard_granularity % rsp.logical_block_size == 0);
	REQUIRE(!rsp.max_discard_sectors || rsp.discard_granularity);
	REQUIRE(!rsp.discard_alignment ||
		rsp.discard_alignment < rsp.discard_granularity);
	REQUIRE(rsp.max_hw_sectors == le(data + 16, 4));
	REQUIRE(rsp.max_segments == le(data + 40, 2));

	rnbd_open_rsp_encode(&msg, &rsp);
	REQUIRE(!rnbd_open_rsp_decode(&msg, sizeof(msg), &again));
	REQUIRE(!memcmp(&rsp, &again, sizeof(rsp)));
	return 0;
}
