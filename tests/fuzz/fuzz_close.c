// SPDX-License-Identifier: GPL-2.0
/* CLOSE.  Input: the user message. */
#include "fuzz.h"

int LLVMFuzzerTestOneInput(const u8 *data, size_t size)
{
	struct rnbd_wire_close msg;
	u32 id = 0;
	int err = rnbd_close_decode(data, size, &id);

	REQUIRE(err == (size >= 8 && le(data, 2) == 5 ? 0 : -EINVAL));
	REQUIRE(rnbd_msg_type(data, size) ==
		(size >= 4 ? (int)le(data, 2) : -EINVAL));
	if (err)
		return 0;
	rnbd_close_encode(&msg, id);
	REQUIRE(le((u8 *)&msg, 4) == 5);
	REQUIRE(!memcmp((u8 *)&msg + 4, data + 4, 4));
	return 0;
}
