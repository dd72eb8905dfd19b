// SPDX-License-Identifier: GPL-2.0
/* A reject.  Input: its private data.  There is always an errno. */
#include "fuzz.h"

int LLVMFuzzerTestOneInput(const u8 *data, size_t size)
{
	int err = rtrs_reject_decode(data, size);
	int said = size >= 56 ? (int)le(data + 4, 2) - 65536 : 0;

	REQUIRE(err < 0 && err > -512);
	if (size >= 56 && said > -512)
		REQUIRE(err == said);
	else
		REQUIRE(err == -ECONNREFUSED);
	REQUIRE(rtrs_reject_decode(NULL, size) == -ECONNREFUSED);
	return 0;
}
