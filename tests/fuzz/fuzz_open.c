// SPDX-License-Identifier: GPL-2.0
/* OPEN.  Input: the user message. */
#include "fuzz.h"

int LLVMFuzzerTestOneInput(const u8 *data, size_t size)
{
	struct rnbd_wire_open msg;
	struct rnbd_open open, again;
	size_t len, i;
	int err;

	memset(&open, 0, sizeof(open));
	memset(&again, 0, sizeof(again));
	memset(open.name, 0xee, sizeof(open.name));
	err = rnbd_open_decode(data, size, &open);
	REQUIRE(err == 0 || err == -EINVAL);
	if (err)
		return 0;
	REQUIRE(size >= 264 && le(data, 2) == 2 && data[4] <= 2);
	REQUIRE(open.mode == data[4]);
	len = strnlen(open.name, sizeof(open.name));
	REQUIRE(len >= 1 && len <= 254);
	REQUIRE(!memcmp(open.name, data + 6, len + 1));
	REQUIRE(!strstr(open.name, ".."));
	for (i = 0; i < len; i++)
		REQUIRE((u8)open.name[i] >= ' ' && open.name[i] != 0x7f);
	for (; i < sizeof(open.name); i++)
		REQUIRE(!open.name[i]);
	rnbd_open_encode(&msg, open.mode, open.name);
	REQUIRE(!rnbd_open_decode(&msg, sizeof(msg), &again));
	REQUIRE(!memcmp(&open, &again, sizeof(open)));
	return 0;
}
