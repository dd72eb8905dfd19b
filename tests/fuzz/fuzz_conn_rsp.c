// SPDX-License-Identifier: GPL-2.0
/* CONN_RSP.  Input: one byte "check the sizes" (odd = cid 0), private data. */
#include "fuzz.h"

int LLVMFuzzerTestOneInput(const u8 *data, size_t size)
{
	struct rtrs_conn_rsp rsp, again;
	bool geometry = take(&data, &size, 1) & 1;
	struct rtrs_wire_conn_rsp msg;
	u64 chunk;
	int err;

	/* compared as bytes below: no random padding */
	memset(&rsp, 0, sizeof(rsp));
	memset(&again, 0, sizeof(again));
	err = rtrs_conn_rsp_decode(data, size, geometry, &rsp);
	if (size < 56) {
		REQUIRE(err == -EMSGSIZE);
		return 0;
	}
	if (le(data, 2) != 0x1bbd || data[3] != 2) {
		REQUIRE(err == -EPROTO);
		return 0;
	}
	if (le(data + 4, 2)) {
		REQUIRE(err < 0 && err > -512);
		return 0;
	}
	if (err) {
		REQUIRE(geometry && err == -EINVAL);
		return 0;
	}
	REQUIRE(!rsp.error);
	REQUIRE(rsp.queue_depth == le(data + 6, 2));
	REQUIRE(rsp.new_rkey == (le(data + 16, 4) >> 1 & 1));
	if (!geometry)
		return 0;

	/* An immediate reaches every byte of every chunk. */
	chunk = (u64)rsp.max_io_size + rsp.max_hdr_size;
	REQUIRE(rsp.queue_depth >= 1);
	REQUIRE(chunk >= 8192 && chunk <= 1ULL << 28);
	REQUIRE(rsp.queue_depth * chunk <= 1ULL << 28);
	REQUIRE(rsp.max_io_size >= 4096 && rsp.max_hdr_size >= 4096);

	rtrs_conn_rsp_encode(&msg, &rsp);
	REQUIRE(!memcmp((u8 *)&msg + 4, data + 4, 12));
	REQUIRE(!rtrs_conn_rsp_decode(&msg, sizeof(msg), true, &again));
	REQUIRE(!memcmp(&rsp, &again, sizeof(rsp)));
	return 0;
}
