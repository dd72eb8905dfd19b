// SPDX-License-Identifier: GPL-2.0
/* The 32-bit immediate: every number of the vectors, and the bounds */
#include "unit.h"

static const struct {
	u32 depth, chunk, chunk_bits, mem_bits, id, data_len, usr_len, imm;
} reqs[] = {
	{ 512, 131072, 9, 19, 0, 0, 8, 0x00000008 },
	{ 512, 131072, 9, 19, 0, 36, 36, 0x00000048 },
	{ 512, 131072, 9, 19, 1, 56, 264, 0x00080140 },
	{ 512, 131072, 9, 19, 5, 4096, 32, 0x00281020 },
	{ 512, 131072, 9, 19, 511, 126976, 32, 0x0FF9F020 },
	{ 512, 131072, 9, 19, 255, 0, 32, 0x07F80020 },
	{ 1, 131072, 0, 28, 0, 4096, 32, 0x00001020 },
	{ 2, 131072, 1, 27, 1, 4096, 32, 0x08001020 },
	{ 128, 1048576, 7, 21, 127, 1044480, 32, 0x0FEFF020 },
	{ 500, 131072, 9, 19, 499, 4096, 32, 0x0F981020 },
	{ 513, 131072, 10, 18, 512, 4096, 32, 0x08001020 },
	{ 1024, 131072, 10, 18, 1023, 126976, 32, 0x0FFDF020 },
	{ 1024, 262144, 10, 18, 1023, 258048, 32, 0x0FFFF020 },
	{ 4096, 65536, 12, 16, 4095, 61440, 32, 0x0FFFF020 },
	{ 32768, 8192, 15, 13, 32767, 4096, 32, 0x0FFFF020 },
	{ 128, 131072, 7, 21, 5, 4096, 32, 0x00A01020 },
};

static void io_req_vectors(void **state)
{
	u32 id, off, want_off;
	size_t i;

	(void)state;
	for (i = 0; i < ARRAY_LEN(reqs); i++) {
		want_off = reqs[i].data_len + reqs[i].usr_len;
		assert_case(rtrs_bits(reqs[i].depth), reqs[i].chunk_bits,
			    "row %zu", i);
		assert_case(28 - rtrs_bits(reqs[i].depth), reqs[i].mem_bits,
			    "row %zu", i);
		assert_true(rtrs_geometry_ok(reqs[i].depth, reqs[i].chunk));
		assert_case(rtrs_io_req_imm(reqs[i].depth, reqs[i].id,
					    want_off), reqs[i].imm,
			    "encode row %zu", i);
		assert_case(rtrs_imm_type(reqs[i].imm), RTRS_IMM_IO_REQ,
			    "type of row %zu", i);
		assert_case(rtrs_io_req_imm_decode(reqs[i].imm, reqs[i].depth,
						   reqs[i].chunk, &id, &off),
			    0, "decode row %zu", i);
		assert_case(id, reqs[i].id, "id of row %zu", i);
		assert_case(off, want_off, "offset of row %zu", i);
	}
}

/* Depths of the spec's table: the split depends on nothing else */
static void io_req_split_table(void **state)
{
	static const u32 t[][2] = {
		{ 1, 28 },    { 2, 27 },    { 128, 21 },  { 500, 19 },
		{ 512, 19 },  { 513, 18 },  { 1024, 18 }, { 4096, 16 },
		{ 32768, 13 }, { 65535, 12 },
	};
	size_t i;

	(void)state;
	for (i = 0; i < ARRAY_LEN(t); i++) {
		u32 depth = t[i][0], id = depth - 1, off = 4095;
		u32 imm = rtrs_io_req_imm(depth, id, off);

		assert_case(imm, id << t[i][1] | off, "depth %u", depth);
		assert_case(rtrs_io_req_imm_decode(imm, depth, 8192, &id,
						   &off), 0, "depth %u", depth);
		assert_case(id, depth - 1, "depth %u", depth);
		assert_case(off, 4095, "depth %u", depth);
	}
}

static void io_req_invalid(void **state)
{
	static const struct {
		u32 imm, id, off;
	} t[] = {
		{ 0x0FA00020, 500, 32 },
		{ 0x0FF80000, 511, 0 },
		{ 0x001A0000, 3, 131072 },
		{ 0x001BFFFF, 3, 262143 },
	};
	u32 id, off;
	size_t i;

	(void)state;
	for (i = 0; i < ARRAY_LEN(t); i++) {
		assert_case(rtrs_io_req_imm_decode(t[i].imm, 500, CHUNK, &id,
						   &off), -EINVAL,
			    "imm %#x", t[i].imm);
		/* the numbers are right, so that the log can name them */
		assert_case(id, t[i].id, "imm %#x", t[i].imm);
		assert_case(off, t[i].off, "imm %#x", t[i].imm);
	}
}

static void io_req_bounds(void **state)
{
	static const struct {
		u32 id, off;
		int want;
	} t[] = {
		{ 0, 0, 0 },
		{ 499, 0, 0 },
		{ 500, 0, -EINVAL },
		{ 501, 0, -EINVAL },
		{ 511, 0, -EINVAL },
		{ 0, 131071, 0 },
		{ 0, 131072, -EINVAL },
		{ 0, 131073, -EINVAL },
		{ 0, (1 << 19) - 1, -EINVAL },
		{ 499, 131071, 0 },
		{ 500, 131072, -EINVAL },
	};
	u32 id, off;
	size_t i;

	(void)state;
	for (i = 0; i < ARRAY_LEN(t); i++)
		assert_case(rtrs_io_req_imm_decode(t[i].id << 19 | t[i].off,
						   500, CHUNK, &id, &off),
			    t[i].want, "id %u off %u", t[i].id, t[i].off);
	/* a chunk that fills its share exactly has no invalid offset */
	assert_int_equal(rtrs_io_req_imm_decode(0x0FFFFFFF, 1024, 262144, &id,
						&off), 0);
	assert_int_equal(id, 1023);
	assert_int_equal(off, 262143);
	assert_int_equal(rtrs_io_req_imm_decode(0x0FFFFFFF, 1, 1 << 28, &id,
						&off), 0);
	assert_int_equal(id, 0);
	assert_int_equal(off, (1 << 28) - 1);
	/* the type nibble is none of its business */
	assert_int_equal(rtrs_io_req_imm_decode(0xF0281020, 512, CHUNK, &id,
						&off), 0);
	assert_int_equal(id, 5);
	assert_int_equal(off, 4128);
}

static void io_rsp_vectors(void **state)
{
	static const struct {
		u32 imm;
		bool inv;
		u32 id;
		int error;
		bool encodes;
	} t[] = {
		{ 0x10000000, false, 0, 0, true },
		{ 0x10000005, false, 5, 0, true },
		{ 0x20000005, true, 5, 0, true },
		{ 0x200001FF, true, 511, 0, true },
		{ 0x1000FFFE, false, 65534, 0, true },
		{ 0x10280005, false, 5, -EIO, true },
		{ 0x20280005, true, 5, -EIO, true },
		{ 0x13580007, false, 7, -ENOTCONN, true },
		{ 0x10B00007, false, 7, -EINVAL, true },
		{ 0x12F801FF, false, 511, -EOPNOTSUPP, true },
		{ 0x20600003, true, 3, -ENOMEM, true },
		{ 0x13C80003, false, 3, -EREMOTEIO, true },
		{ 0x20100001, true, 1, -ENOENT, true },
		{ 0x1FF80000, false, 0, -511, true },
		/* 524 cut to nine bits by somebody else */
		{ 0x10600009, false, 9, -12, false },
	};
	size_t i;

	(void)state;
	for (i = 0; i < ARRAY_LEN(t); i++) {
		u32 id = ~0U;
		int error = 1;

		assert_case(rtrs_imm_type(t[i].imm),
			    t[i].inv ? RTRS_IMM_IO_RSP_INV : RTRS_IMM_IO_RSP,
			    "imm %#x", t[i].imm);
		assert_case(rtrs_io_rsp_imm_decode(t[i].imm, 65535, &id,
						   &error), 0,
			    "imm %#x", t[i].imm);
		assert_case(id, t[i].id, "imm %#x", t[i].imm);
		assert_case(error, t[i].error, "imm %#x", t[i].imm);
		if (t[i].encodes)
			assert_case(rtrs_io_rsp_imm(t[i].id, t[i].error,
						    t[i].inv), t[i].imm,
				    "imm %#x", t[i].imm);
	}
}

/* Known bug B19: errnos that nine bits cannot hold are not cut, they become EIO */
static void io_rsp_large_errno(void **state)
{
	(void)state;
	assert_int_equal(rtrs_io_rsp_imm(9, -510, false), 0x1FF00009);
	assert_int_equal(rtrs_io_rsp_imm(9, -511, false), 0x1FF80009);
	assert_int_equal(rtrs_io_rsp_imm(9, -512, false), 0x10280009);
	assert_int_equal(rtrs_io_rsp_imm(9, -524, false), 0x10280009);
	assert_int_equal(rtrs_io_rsp_imm(9, -524, true), 0x20280009);
	assert_int_equal(rtrs_io_rsp_imm(9, -4095, false), 0x10280009);
}

static void io_rsp_id_bounds(void **state)
{
	int error;
	u32 id;

	(void)state;
	assert_int_equal(rtrs_io_rsp_imm_decode(0x100001FE, 512, &id, &error),
			 0);
	assert_int_equal(rtrs_io_rsp_imm_decode(0x100001FF, 512, &id, &error),
			 0);
	assert_int_equal(rtrs_io_rsp_imm_decode(0x10000200, 512, &id, &error),
			 -EINVAL);
	assert_int_equal(id, 512);
	assert_int_equal(rtrs_io_rsp_imm_decode(0x1007FFFF, 65535, &id,
						&error), -EINVAL);
	assert_int_equal(id, 0x7ffff);
	assert_int_equal(error, 0);
	assert_int_equal(rtrs_io_rsp_imm_decode(0x10000000, 1, &id, &error),
			 0);
	assert_int_equal(rtrs_io_rsp_imm_decode(0x10000001, 1, &id, &error),
			 -EINVAL);
	/* an id that does not fit its 19 bits must not become an errno */
	assert_int_equal(rtrs_io_rsp_imm(0x80005, 0, false), 0x10000005);
}

static void heartbeats_and_strangers(void **state)
{
	(void)state;
	assert_int_equal(rtrs_imm(RTRS_IMM_HB_MSG, 0), 0x80000000);
	assert_int_equal(rtrs_imm(RTRS_IMM_HB_ACK, 0), 0x90000000);
	assert_int_equal(rtrs_imm_type(0x80000000), RTRS_IMM_HB_MSG);
	assert_int_equal(rtrs_imm_type(0x90000000), RTRS_IMM_HB_ACK);
	assert_int_equal(RTRS_IMM_HB_MSG, 8);
	assert_int_equal(RTRS_IMM_HB_ACK, 9);
	/* type 3 belongs to nobody */
	assert_int_equal(rtrs_imm_type(0x30000000), 3);
	assert_int_equal(rtrs_imm_type(0xFFFFFFFF), 15);
	/* a payload cannot change the type */
	assert_int_equal(rtrs_imm(RTRS_IMM_IO_RSP, 0xFFFFFFFF), 0x1FFFFFFF);
}

/* All ids of all depths that matter, offsets at the ends and in the middle */
static void io_req_round_trip(void **state)
{
	static const u32 depths[] = { 1, 2, 3, 127, 128, 500, 512, 513, 1024,
				      4096, 32767, 32768 };
	size_t d, o;

	(void)state;
	for (d = 0; d < ARRAY_LEN(depths); d++) {
		u32 chunk = 1U << (28 - rtrs_bits(depths[d]));
		u32 offs[] = { 0, 1, 32, chunk / 2, chunk - 1 };
		u32 i, id, off;

		for (i = 0; i < depths[d]; i++) {
			for (o = 0; o < ARRAY_LEN(offs); o++) {
				u32 imm = rtrs_io_req_imm(depths[d], i,
							  offs[o]);

				assert_case(rtrs_io_req_imm_decode(
						imm, depths[d], chunk, &id,
						&off), 0, "depth %u id %u",
					    depths[d], i);
				assert_case(id, i, "depth %u", depths[d]);
				assert_case(off, offs[o], "depth %u",
					    depths[d]);
			}
		}
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(io_req_vectors),
		cmocka_unit_test(io_req_split_table),
		cmocka_unit_test(io_req_invalid),
		cmocka_unit_test(io_req_bounds),
		cmocka_unit_test(io_req_round_trip),
		cmocka_unit_test(io_rsp_vectors),
		cmocka_unit_test(io_rsp_large_errno),
		cmocka_unit_test(io_rsp_id_bounds),
		cmocka_unit_test(heartbeats_and_strangers),
	};

	return cmocka_run_group_tests_name("rtrs_imm", tests, NULL, NULL);
}
