// SPDX-License-Identifier: GPL-2.0
/* INFO_REQ.  Input: the received bytes. */
#include "fuzz.h"

int LLVMFuzzerTestOneInput(const u8 *data, size_t size)
{
	char name[RTRS_NAME_LEN], again[RTRS_NAME_LEN];
	struct rtrs_wire_info_req msg;
	size_t len, i;
	int err;

	memset(name, 0xee, sizeof(name));
	err = rtrs_info_req_decode(data, size, name);
	if (size < 272) {
		REQUIRE(err == -EMSGSIZE);
		return 0;
	}
	if (le(data, 2)) {
		REQUIRE(err == -EPROTO);
		return 0;
	}
	len = strnlen((const char *)data + 2, 255);
	if (err) {
		REQUIRE(err == -EINVAL);
		/* only for a reason */
		for (i = 2; i < 2 + len; i++)
			if (data[i] <= ' ' || data[i] == 0x7f ||
			    data[i] == '/' || data[i] == '.')
				return 0;
		REQUIRE(len == 0 || len == 255);
		return 0;
	}
	REQUIRE(len >= 1 && len <= 254 && strnlen(name, 255) == len);
	REQUIRE(!memcmp(name, data + 2, len));
	REQUIRE(!strchr(name, '/') && !strchr(name, '.'));
	for (i = len; i < sizeof(name); i++)
		REQUIRE(!name[i]);
	rtrs_info_req_encode(&msg, name);
	REQUIRE(!rtrs_info_req_decode(&msg, sizeof(msg), again));
	REQUIRE(!memcmp(name, again, sizeof(name)));
	return 0;
}
