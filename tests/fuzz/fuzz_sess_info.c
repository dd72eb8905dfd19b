// SPDX-License-Identifier: GPL-2.0
/* SESS_INFO and its answer.  Input: which (1 byte, odd = answer), message. */
#include "fuzz.h"

int LLVMFuzzerTestOneInput(const u8 *data, size_t size)
{
	enum rnbd_msg_type type = take(&data, &size, 1) & 1;
	struct rnbd_wire_sess_info msg;
	u8 ver = 0, again = 0;
	int err = rnbd_sess_info_decode(data, size, type, &ver);

	REQUIRE(err == 0 || err == -EINVAL);
	REQUIRE(!err == (size >= 36 && le(data, 2) == type && data[4]));
	if (err)
		return 0;
	REQUIRE(ver >= 1 && ver <= 2 && ver <= data[4]);
	REQUIRE(rnbd_msg_type(data, size) == (int)type);
	rnbd_sess_info_encode(&msg, type, ver);
	REQUIRE(!rnbd_sess_info_decode(&msg, sizeof(msg), type, &again));
	REQUIRE(ver == again);
	return 0;
}
