// SPDX-License-Identifier: GPL-2.0
/*
 * INFO_RSP.  Input: queue depth - 1 (2 bytes), chunk size as multiple of 4 KiB
 * above 8 KiB (1 byte), received bytes.
 */
#include "fuzz.h"

/* Each chunk lies in its descriptor's memory, right behind the one before. */
static void check_chunks(const u8 *desc, const struct rtrs_chunk_ref *chunk,
			 u32 depth, u32 chunk_size)
{
	u32 used = 0, i;

	for (i = 0; i < depth; i++) {
		u64 addr = le(desc, 4) | (u64)le(desc + 4, 4) << 32;
		u32 len = le(desc + 12, 4);

		REQUIRE(chunk[i].addr == addr + used);
		REQUIRE(chunk[i].addr <= ~0ULL - chunk_size);
		REQUIRE(chunk[i].key == le(desc + 8, 4));
		used += chunk_size;
		REQUIRE(used <= len);
		if (used == len) {
			desc += 16;
			used = 0;
		}
	}
	REQUIRE(!used);
}

int LLVMFuzzerTestOneInput(const u8 *data, size_t size)
{
	u32 depth = 1 + take(&data, &size, 2) % 4096;
	u32 chunk_size = 8192 + 4096 * take(&data, &size, 1);
	struct rtrs_chunk_ref *chunk;
	u64 sum = 0;
	u32 n, k;
	int err;

	chunk = calloc(depth, sizeof(*chunk));
	err = rtrs_info_rsp_decode(data, size, depth, chunk_size, chunk);
	n = size >= 8 ? le(data + 2, 2) : 0;
	if (size < 8 || (le(data, 2) == 1 && size < 8 + 16 * n)) {
		REQUIRE(err == -EMSGSIZE);
	} else if (le(data, 2) != 1) {
		REQUIRE(err == -EPROTO);
	} else if (!err) {
		REQUIRE(n && n <= depth && depth % n == 0);
		for (k = 0; k < n; k++)
			sum += le(data + 8 + 16 * k + 12, 4);
		REQUIRE(sum == (u64)depth * chunk_size);
		check_chunks(data + 8, chunk, depth, chunk_size);
	} else {
		REQUIRE(err == -EINVAL);
	}
	free(chunk);
	return 0;
}
