// SPDX-License-Identifier: GPL-2.0
/* RKEY_RSP.  Input: queue depth - 1 (2 bytes), received bytes. */
#include "fuzz.h"

int LLVMFuzzerTestOneInput(const u8 *data, size_t size)
{
	u32 depth = 1 + take(&data, &size, 2);
	struct rtrs_wire_rkey_rsp msg;
	u32 id = ~0U, key = 0;
	int err = rtrs_rkey_rsp_decode(data, size, depth, &id, &key);

	if (size < 8) {
		REQUIRE(err == -EMSGSIZE);
	} else if (le(data, 2) != 4) {
		REQUIRE(err == -EPROTO);
	} else {
		REQUIRE(err == (le(data + 2, 2) < depth ? 0 : -EINVAL));
		if (err)
			return 0;
		rtrs_rkey_rsp_encode(&msg, id, key);
		REQUIRE(!memcmp(&msg, data, sizeof(msg)));
	}
	return 0;
}
