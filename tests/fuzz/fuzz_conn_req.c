// SPDX-License-Identifier: GPL-2.0
/* CONN_REQ.  Input: the private data of a connection request. */
#include "fuzz.h"

int LLVMFuzzerTestOneInput(const u8 *data, size_t size)
{
	struct rtrs_conn_req req, again;
	struct rtrs_wire_conn_req msg;
	const u8 *out = (const u8 *)&msg;
	int err;
	u32 cid, cid_num;

	/* compared as bytes below: no random padding */
	memset(&req, 0, sizeof(req));
	memset(&again, 0, sizeof(again));
	err = rtrs_conn_req_decode(data, size, &req);
	if (size < 56) {
		REQUIRE(err == -EMSGSIZE);
		return 0;
	}
	cid = le(data + 6, 2);
	cid_num = le(data + 8, 2);
	if (le(data + 2, 2) != 0x1bbd || data[5] != 2) {
		REQUIRE(err == -EPROTO);
		return 0;
	}
	REQUIRE(err == (cid < cid_num && cid_num <= 4096 ? 0 : -EINVAL));
	if (err)
		return 0;
	REQUIRE(req.cid == cid && req.cid_num == cid_num);

	/* What we send is what we read, with all free bytes zero. */
	rtrs_conn_req_encode(&msg, &req);
	REQUIRE(le(out, 2) == 0 && le(out + 4, 2) == 0x200);
	REQUIRE(!memcmp(out + 6, data + 6, 38));
	REQUIRE(out[44] == (data[44] ? 1 : 0));
	REQUIRE(le(out + 45, 4) == 0 && le(out + 52, 4) == 0);
	REQUIRE(!rtrs_conn_req_decode(&msg, sizeof(msg), &again));
	REQUIRE(!memcmp(&req, &again, sizeof(req)));
	return 0;
}
