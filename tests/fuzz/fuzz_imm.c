// SPDX-License-Identifier: GPL-2.0
/*
 * Immediates of requests and responses.  Input: immediate (4 bytes), queue
 * depth - 1 (2 bytes), chunk size - 1 (4 bytes, cut to what the depth allows).
 */
#include "fuzz.h"

static void request(u32 imm, u32 depth, u32 chunk)
{
	u32 id = ~0U, off = ~0U;
	int err = rtrs_io_req_imm_decode(imm, depth, chunk, &id, &off);

	REQUIRE(err == (id < depth && off < chunk ? 0 : -EINVAL));
	/* nothing of the payload is lost, and the split is the depth's */
	REQUIRE(rtrs_io_req_imm(depth, id, off) == (imm & 0x0fffffff));
	REQUIRE(off < 1U << (28 - rtrs_bits(depth)));
	REQUIRE(depth <= 1U << rtrs_bits(depth));
	REQUIRE(depth == 1 || depth > 1U << (rtrs_bits(depth) - 1));
}

static void response(u32 imm, u32 depth)
{
	u32 id = ~0U;
	int error = 1;
	int err = rtrs_io_rsp_imm_decode(imm, depth, &id, &error);

	REQUIRE(err == (id < depth ? 0 : -EINVAL));
	REQUIRE(error <= 0 && error >= -511);
	REQUIRE(id == (imm & 0x7ffff));
	REQUIRE((u32)-error == (imm >> 19 & 0x1ff));
	if (rtrs_imm_type(imm) == RTRS_IMM_IO_RSP)
		REQUIRE(rtrs_io_rsp_imm(id, error, false) == imm);
	if (rtrs_imm_type(imm) == RTRS_IMM_IO_RSP_INV)
		REQUIRE(rtrs_io_rsp_imm(id, error, true) == imm);
}

int LLVMFuzzerTestOneInput(const u8 *data, size_t size)
{
	u32 imm = take(&data, &size, 4);
	u32 depth = 1 + take(&data, &size, 2) % RTRS_MAX_DEPTH;
	u32 most = 1U << (28 - rtrs_bits(depth));
	u32 chunk = 1 + take(&data, &size, 4) % most;

	REQUIRE(rtrs_imm_type(imm) == imm >> 28);
	REQUIRE(rtrs_imm(rtrs_imm_type(imm), imm) == imm);
	request(imm, depth, chunk);
	response(imm, depth);
	return 0;
}
