// SPDX-License-Identifier: GPL-2.0
/*
 * SESS_INFO, OPEN, OPEN_RSP, CLOSE: vectors, bounds, names, odd devices.
 * Known bugs: B10, B11, B24, D12, D22, D25.
 */
#include "unit.h"

static void msg_type(void **state)
{
	struct vec v = vec_load("close_7");
	size_t len;

	(void)state;
	for (len = 0; len < 4; len++) {
		u8 *p = exact_copy(v.data, len);

		assert_case(rnbd_msg_type(p, len), -EINVAL, "%zu bytes", len);
		free(p);
	}
	assert_int_equal(rnbd_msg_type(v.data, 4), RNBD_MSG_CLOSE);
	assert_int_equal(rnbd_msg_type(v.data, v.len), RNBD_MSG_CLOSE);
	put16(v.data, 2, 0xffff);	/* padding */
	assert_int_equal(rnbd_msg_type(v.data, v.len), RNBD_MSG_CLOSE);
	put16(v.data, 0, 0xffff);	/* never mistaken for an errno */
	assert_int_equal(rnbd_msg_type(v.data, v.len), 0xffff);
	put16(v.data, 0, 0x0500);
	assert_int_equal(rnbd_msg_type(v.data, v.len), 0x0500);
	vec_free(&v);
}

/* The types of all vectors */
static void msg_types(void **state)
{
	static const struct {
		const char *name;
		int type;
	} t[] = {
		{ "sess_info", 0 }, { "sess_info_rsp", 1 }, { "open_rw", 2 },
		{ "open_rsp_a", 3 }, { "io_read", 4 }, { "close_7", 5 },
	};
	size_t i;

	(void)state;
	for (i = 0; i < ARRAY_LEN(t); i++) {
		struct vec v = vec_load(t[i].name);

		assert_case(rnbd_msg_type(v.data, v.len), t[i].type, "%s",
			    t[i].name);
		vec_free(&v);
	}
}

/* SESS_INFO */

static void sess_info_vectors(void **state)
{
	static const struct {
		const char *name;
		enum rnbd_msg_type type;
	} t[] = {
		{ "sess_info", RNBD_MSG_SESS_INFO },
		{ "sess_info_rsp", RNBD_MSG_SESS_INFO_RSP },
	};
	size_t i;

	(void)state;
	for (i = 0; i < ARRAY_LEN(t); i++) {
		struct rnbd_wire_sess_info msg;
		struct vec v = vec_load(t[i].name);
		u8 ver = 0;

		memset(&msg, 0xff, sizeof(msg));
		rnbd_sess_info_encode(&msg, t[i].type, RNBD_VERSION_MAJOR);
		assert_vec(t[i].name, &msg, sizeof(msg));
		assert_int_equal(rnbd_sess_info_decode(v.data, v.len,
						       t[i].type, &ver), 0);
		assert_int_equal(ver, 2);
		/* the other one of the two is refused */
		assert_int_equal(rnbd_sess_info_decode(v.data, v.len,
						       !t[i].type, &ver),
				 -EINVAL);
		vec_free(&v);
	}
}

static void sess_info_bounds(void **state)
{
	static const u16 types[] = { 1, 2, 3, 4, 5, 0x100, 0xffff };
	struct vec v = vec_load("sess_info");
	size_t i;
	u8 ver;

	(void)state;
	for (i = 0; i < v.len; i++) {
		u8 *p = exact_copy(v.data, i);

		assert_case(rnbd_sess_info_decode(p, i, RNBD_MSG_SESS_INFO,
						  &ver), -EINVAL,
			    "%zu bytes", i);
		free(p);
	}
	for (i = 0; i < 256; i++) {
		v.data[4] = i;
		ver = 77;
		assert_case(rnbd_sess_info_decode(v.data, v.len,
						  RNBD_MSG_SESS_INFO, &ver),
			    i ? 0 : -EINVAL, "version %zu", i);
		if (i)
			assert_int_equal(ver, i < 2 ? i : 2);
	}
	/* garbage in padding and reserved bytes, and behind the message */
	memset(v.data + 2, 0xff, 2);
	memset(v.data + 5, 0xff, 31);
	assert_int_equal(rnbd_sess_info_decode(v.data, v.len,
					       RNBD_MSG_SESS_INFO, &ver), 0);
	for (i = 0; i < ARRAY_LEN(types); i++) {
		put16(v.data, 0, types[i]);
		assert_case(rnbd_sess_info_decode(v.data, v.len,
						  RNBD_MSG_SESS_INFO, &ver),
			    -EINVAL, "type %u", types[i]);
	}
	vec_free(&v);
}

/* OPEN */

static void check_open(const char *vector, enum rnbd_access_mode mode,
		       const char *dev)
{
	struct rnbd_wire_open msg;
	struct vec v = vec_load(vector);
	char name[RNBD_NAME_LEN] = {};
	struct rnbd_open open;
	size_t i;

	strcpy(name, dev);
	memset(&msg, 0xff, sizeof(msg));
	rnbd_open_encode(&msg, mode, name);
	assert_vec(vector, &msg, sizeof(msg));

	memset(&open, 0xff, sizeof(open));
	assert_int_equal(rnbd_open_decode(v.data, v.len, &open), 0);
	assert_int_equal(open.mode, mode);
	assert_string_equal(open.name, dev);
	for (i = strlen(dev); i < sizeof(open.name); i++)
		assert_int_equal(open.name[i], 0);
	vec_free(&v);
}

static void open_vectors(void **state)
{
	(void)state;
	check_open("open_rw", RNBD_ACCESS_RW, "/dev/ram0");
	check_open("open_ro", RNBD_ACCESS_RO, "disk0");
	check_open("open_migration", RNBD_ACCESS_MIGRATION, "disk0");
}

static void open_bounds(void **state)
{
	static const u16 types[] = { 0, 1, 3, 4, 5, 0x102, 0xffff };
	struct vec v = vec_load("open_rw");
	struct rnbd_open open;
	size_t i;

	(void)state;
	for (i = 0; i < v.len; i++) {
		u8 *p = exact_copy(v.data, i);

		assert_case(rnbd_open_decode(p, i, &open), -EINVAL,
			    "%zu bytes", i);
		free(p);
	}
	for (i = 0; i < 256; i++) {
		v.data[4] = i;
		assert_case(rnbd_open_decode(v.data, v.len, &open),
			    i <= 2 ? 0 : -EINVAL, "access mode %zu", i);
	}
	v.data[4] = 1;
	/* garbage in padding and reserved bytes, and behind the NUL */
	memset(v.data + 2, 0xff, 2);
	v.data[5] = 0xff;
	memset(v.data + 261, 0xff, 3);
	memset(v.data + 6 + 10, '.', 245);
	assert_int_equal(rnbd_open_decode(v.data, v.len, &open), 0);
	assert_string_equal(open.name, "/dev/ram0");
	for (i = 0; i < ARRAY_LEN(types); i++) {
		put16(v.data, 0, types[i]);
		assert_case(rnbd_open_decode(v.data, v.len, &open), -EINVAL,
			    "type %u", types[i]);
	}
	vec_free(&v);
}

/* An OPEN with n bytes of name, followed by NULs as far as there is room */
static int open_name(const void *bytes, size_t n, struct rnbd_open *open)
{
	struct vec v = vec_load("open_rw");
	int err;

	memset(v.data + 6, 0, 255);
	memcpy(v.data + 6, bytes, n);
	err = rnbd_open_decode(v.data, v.len, open);
	vec_free(&v);
	return err;
}

static void open_name_length(void **state)
{
	struct rnbd_open open;
	char bytes[256];

	(void)state;
	memset(bytes, 'd', sizeof(bytes));
	assert_int_equal(open_name(bytes, 0, &open), -EINVAL);
	assert_int_equal(open_name(bytes, 1, &open), 0);
	assert_int_equal(strlen(open.name), 1);
	assert_int_equal(open_name(bytes, 253, &open), 0);
	assert_int_equal(open_name(bytes, 254, &open), 0);
	assert_int_equal(strlen(open.name), 254);
	/* 255 characters, no NUL: reserved bytes behind do not end it */
	assert_int_equal(open_name(bytes, 255, &open), -EINVAL);
}

static void open_name_bytes(void **state)
{
	char bytes[3] = { 'a', 0, 'b' };
	struct rnbd_open open;
	int c;

	(void)state;
	for (c = 1; c < 256; c++) {
		bool bad = c < ' ' || c == 0x7f;

		bytes[1] = c;
		assert_case(open_name(bytes, 3, &open), bad ? -EINVAL : 0,
			    "byte %#x in a name", c);
	}
}

static void open_name_dots(void **state)
{
	static const struct {
		const char *name;
		int want;
	} t[] = {
		{ "..", -EINVAL },	   { "../x", -EINVAL },
		{ "x/..", -EINVAL },	   { "x/../y", -EINVAL },
		{ "a..b", -EINVAL },	   { "...", -EINVAL },
		{ "/..", -EINVAL },	   { "a/b..", -EINVAL },
		{ ".", 0 },		   { "a.b.c", 0 },
		{ "./x", 0 },		   { "x/.", 0 },
		{ ".a.", 0 },		   { "/dev/disk/by-id/x.y", 0 },
		{ "name with blanks", 0 },
	};
	struct rnbd_open open;
	size_t i;

	(void)state;
	for (i = 0; i < ARRAY_LEN(t); i++)
		assert_case(open_name(t[i].name, strlen(t[i].name), &open),
			    t[i].want, "name %s", t[i].name);
}

static void name_check_sizes(void **state)
{
	char big[300], *s;
	size_t n;

	(void)state;
	assert_int_equal(rnbd_name_check("", 1), -EINVAL);
	assert_int_equal(rnbd_name_check("a", 2), 1);
	for (n = 0; n < 20; n++) {
		memset(big, 'a', n);
		s = exact_copy(big, n);
		assert_int_equal(rnbd_name_check(s, n), -EINVAL);
		free(s);
	}
	memset(big, 'a', sizeof(big));
	big[254] = 0;
	assert_int_equal(rnbd_name_check(big, 300), 254);
	assert_int_equal(rnbd_name_check(big, 255), 254);
	assert_int_equal(rnbd_name_check(big, 254), -EINVAL);
	big[254] = 'a';
	big[255] = 0;
	assert_int_equal(rnbd_name_check(big, 300), -EINVAL);
}

static void open_encode_long_name(void **state)
{
	struct rnbd_wire_open msg;
	struct rnbd_open open;
	char name[400];

	(void)state;
	memset(name, 'a', sizeof(name));
	name[399] = 0;
	rnbd_open_encode(&msg, RNBD_ACCESS_RW, name);
	assert_int_equal(rnbd_open_decode(&msg, sizeof(msg), &open), 0);
	assert_int_equal(strlen(open.name), 254);
}

/* OPEN_RSP */

static const struct rnbd_open_rsp example_a = {
	.device_id = 0,
	.nsectors = 2097152,
	.max_hw_sectors = 2560,
	.max_write_zeroes_sectors = 65535,
	.max_discard_sectors = 8388607,
	.discard_granularity = 4096,
	.physical_block_size = 4096,
	.logical_block_size = 512,
	.max_segments = 128,
	.secure_erase = true,
	.fua = true,
	.writeback = true,
};

static const struct rnbd_open_rsp example_b = {
	.device_id = 7,
	.max_hw_sectors = 255,
	.physical_block_size = 512,
	.logical_block_size = 512,
	.max_segments = 128,
};

static void same_open_rsp(const struct rnbd_open_rsp *a,
			  const struct rnbd_open_rsp *b)
{
	assert_int_equal(a->device_id, b->device_id);
	assert_int_equal(a->nsectors, b->nsectors);
	assert_int_equal(a->max_hw_sectors, b->max_hw_sectors);
	assert_int_equal(a->max_write_zeroes_sectors,
			 b->max_write_zeroes_sectors);
	assert_int_equal(a->max_discard_sectors, b->max_discard_sectors);
	assert_int_equal(a->discard_granularity, b->discard_granularity);
	assert_int_equal(a->discard_alignment, b->discard_alignment);
	assert_int_equal(a->physical_block_size, b->physical_block_size);
	assert_int_equal(a->logical_block_size, b->logical_block_size);
	assert_int_equal(a->max_segments, b->max_segments);
	assert_int_equal(a->secure_erase, b->secure_erase);
	assert_int_equal(a->fua, b->fua);
	assert_int_equal(a->writeback, b->writeback);
}

static void check_open_rsp(const char *name, const struct rnbd_open_rsp *rsp)
{
	struct rnbd_wire_open_rsp msg;
	struct rnbd_open_rsp got;
	struct vec v = vec_load(name);

	memset(&msg, 0xff, sizeof(msg));
	rnbd_open_rsp_encode(&msg, rsp);
	assert_vec(name, &msg, sizeof(msg));
	memset(&got, 0xff, sizeof(got));
	assert_int_equal(rnbd_open_rsp_decode(v.data, v.len, &got), 0);
	same_open_rsp(&got, rsp);
	vec_free(&v);
}

static void open_rsp_vectors(void **state)
{
	(void)state;
	check_open_rsp("open_rsp_a", &example_a);
	check_open_rsp("open_rsp_b", &example_b);
}

/* Every field at its place: all different, all full width */
static void open_rsp_fields(void **state)
{
	struct rnbd_open_rsp rsp = {
		.device_id = 0x01020304,
		.nsectors = 0x0011121314151617,
		.max_hw_sectors = 0xffffffff,
		.max_write_zeroes_sectors = 0x21222324,
		.max_discard_sectors = 0x31323334,
		.discard_granularity = 0x41424000,
		.discard_alignment = 0x11525354,
		.physical_block_size = 0x4000,
		.logical_block_size = 0x2000,
		.max_segments = 0x7172,
		.writeback = true,
	}, got;
	struct rnbd_wire_open_rsp msg;

	(void)state;
	rnbd_open_rsp_encode(&msg, &rsp);
	assert_int_equal(get32(&msg, 0), RNBD_MSG_OPEN_RSP);
	assert_int_equal(get32(&msg, 4), 0x01020304);
	assert_int_equal(get32(&msg, 8), 0x14151617);
	assert_int_equal(get32(&msg, 12), 0x00111213);
	assert_int_equal(get32(&msg, 16), 0xffffffff);
	assert_int_equal(get32(&msg, 20), 0x21222324);
	assert_int_equal(get32(&msg, 24), 0x31323334);
	assert_int_equal(get32(&msg, 28), 0x41424000);
	assert_int_equal(get32(&msg, 32), 0x11525354);
	assert_int_equal(get32(&msg, 36), 0x20004000);
	assert_int_equal(get32(&msg, 40), 0x00007172);
	assert_int_equal(get32(&msg, 44), 0x00000200);
	assert_int_equal(rnbd_open_rsp_decode(&msg, sizeof(msg), &got), 0);
	same_open_rsp(&got, &rsp);
}

static void open_rsp_short_and_type(void **state)
{
	static const u16 types[] = { 0, 1, 2, 4, 5, 0x103, 0xffff };
	struct vec v = vec_load("open_rsp_a");
	struct rnbd_open_rsp got;
	size_t i;

	(void)state;
	for (i = 0; i < v.len; i++) {
		u8 *p = exact_copy(v.data, i);

		assert_case(rnbd_open_rsp_decode(p, i, &got), -EINVAL,
			    "%zu bytes", i);
		free(p);
	}
	for (i = 0; i < ARRAY_LEN(types); i++) {
		put16(v.data, 0, types[i]);
		assert_case(rnbd_open_rsp_decode(v.data, v.len, &got),
			    -EINVAL, "type %u", types[i]);
	}
	vec_free(&v);
}

static void open_rsp_garbage_ignored(void **state)
{
	struct vec v = vec_load("open_rsp_a");
	struct rnbd_open_rsp got;

	(void)state;
	memset(v.data + 2, 0xff, 2);
	v.data[44] = 1;			/* rotational: obsolete */
	v.data[45] |= 0xfc;		/* unknown bits of cache_policy */
	memset(v.data + 46, 0xff, 10);
	assert_int_equal(rnbd_open_rsp_decode(v.data, v.len, &got), 0);
	same_open_rsp(&got, &example_a);
	vec_free(&v);
}

static void open_rsp_block_sizes(void **state)
{
	struct vec v = vec_load("open_rsp_b");
	struct rnbd_open_rsp got;
	u32 size;

	(void)state;
	for (size = 0; size < 0x10000; size++) {
		bool ok = size == 512 || size == 1024 || size == 2048 ||
			  size == 4096 || size == 8192 || size == 16384 ||
			  size == 32768;

		put16(v.data, 36, 32768);
		put16(v.data, 38, size);
		assert_case(rnbd_open_rsp_decode(v.data, v.len, &got),
			    ok ? 0 : -EINVAL, "logical %u", size);
		if (ok) {
			assert_int_equal(got.logical_block_size, size);
			assert_int_equal(got.physical_block_size, 32768);
		}
		/* a physical size that is none becomes the logical one */
		put16(v.data, 36, size);
		put16(v.data, 38, 1024);
		assert_int_equal(rnbd_open_rsp_decode(v.data, v.len, &got), 0);
		assert_case(got.physical_block_size,
			    ok && size >= 1024 ? size : 1024, "physical %u",
			    size);
	}
	vec_free(&v);
}

/* The last byte of the device must have a positive 63-bit number */
static void open_rsp_capacity(void **state)
{
	static const struct {
		u64 n;
		int want;
	} t[] = {
		{ 0, 0 },
		{ 1, 0 },
		{ 0xffffffff, 0 },
		{ 0x100000000, 0 },
		{ (1ULL << 54) - 1, 0 },
		{ 1ULL << 54, -EINVAL },
		{ (1ULL << 54) + 1, -EINVAL },
		{ 1ULL << 55, -EINVAL },
		{ ~0ULL, -EINVAL },
	};
	struct vec v = vec_load("open_rsp_b");
	struct rnbd_open_rsp got;
	size_t i;

	(void)state;
	for (i = 0; i < ARRAY_LEN(t); i++) {
		put64(v.data, 8, t[i].n);
		assert_case(rnbd_open_rsp_decode(v.data, v.len, &got),
			    t[i].want, "%#llx sectors",
			    (unsigned long long)t[i].n);
		if (!t[i].want)
			assert_int_equal(got.nsectors, t[i].n);
	}
	vec_free(&v);
}

static void open_rsp_discard_limits(void **state)
{
	static const struct {
		u32 max, gran, align, want_gran, want_align;
	} t[] = {
		{ 100, 4096, 0, 4096, 0 },
		{ 100, 4096, 512, 4096, 512 },
		{ 100, 4096, 4095, 4096, 4095 },
		{ 100, 4096, 4096, 4096, 0 },
		{ 100, 4096, 4097, 4096, 0 },
		{ 100, 4096, 0xffffffff, 4096, 0 },
		/* not a multiple of the logical block */
		{ 100, 511, 0, 512, 0 },
		{ 100, 513, 0, 512, 0 },
		{ 100, 4095, 600, 512, 0 },
		{ 100, 1536, 0, 1536, 0 },
		{ 100, 0xfffffe00, 0, 0xfffffe00, 0 },
		{ 100, 0xffffffff, 0, 512, 0 },
		/* discards of no granularity would make the block layer warn */
		{ 100, 0, 0, 512, 0 },
		{ 100, 0, 100, 512, 100 },
		{ 100, 0, 512, 512, 0 },
		/* no discards: nothing to be odd about */
		{ 0, 0, 0, 0, 0 },
		{ 0, 0, 100, 0, 0 },
	};
	struct vec v = vec_load("open_rsp_b");
	struct rnbd_open_rsp got;
	size_t i;

	(void)state;
	for (i = 0; i < ARRAY_LEN(t); i++) {
		put32(v.data, 24, t[i].max);
		put32(v.data, 28, t[i].gran);
		put32(v.data, 32, t[i].align);
		assert_int_equal(rnbd_open_rsp_decode(v.data, v.len, &got), 0);
		assert_int_equal(got.max_discard_sectors, t[i].max);
		assert_case(got.discard_granularity, t[i].want_gran,
			    "granularity of row %zu", i);
		assert_case(got.discard_alignment, t[i].want_align,
			    "alignment of row %zu", i);
	}
	vec_free(&v);
}

static void open_rsp_features(void **state)
{
	static const u16 secure[] = { 0, 1, 2, 0x100, 0x8000, 0xffff };
	struct vec v = vec_load("open_rsp_b");
	struct rnbd_open_rsp got;
	size_t i;

	(void)state;
	for (i = 0; i < ARRAY_LEN(secure); i++) {
		put16(v.data, 42, secure[i]);
		assert_int_equal(rnbd_open_rsp_decode(v.data, v.len, &got), 0);
		assert_case(got.secure_erase, secure[i] != 0, "secure %#x",
			    secure[i]);
	}
	for (i = 0; i < 256; i++) {
		v.data[45] = i;
		assert_int_equal(rnbd_open_rsp_decode(v.data, v.len, &got), 0);
		assert_case(got.fua, i & 1, "cache_policy %#zx", i);
		assert_case(got.writeback, i >> 1 & 1, "cache_policy %#zx", i);
	}
	vec_free(&v);
}

static void open_rsp_encode_narrow_fields(void **state)
{
	struct rnbd_open_rsp rsp = example_a;
	struct rnbd_wire_open_rsp msg;
	static const u32 t[][2] = {
		{ 0, 0 }, { 1, 1 }, { 65534, 65534 }, { 65535, 65535 },
		{ 65536, 65535 }, { 65537, 65535 }, { 0xffffffff, 65535 },
	};
	size_t i;

	(void)state;
	for (i = 0; i < ARRAY_LEN(t); i++) {
		rsp.max_segments = t[i][0];
		rnbd_open_rsp_encode(&msg, &rsp);
		assert_case(get32(&msg, 40) & 0xffff, t[i][1], "segments %u",
			    t[i][0]);
		assert_int_equal(get32(&msg, 40) >> 16, 1);
	}
	rsp.fua = false;
	rnbd_open_rsp_encode(&msg, &rsp);
	assert_int_equal(msg.cache_policy, 2);
	rsp.fua = true;
	rsp.writeback = false;
	rnbd_open_rsp_encode(&msg, &rsp);
	assert_int_equal(msg.cache_policy, 1);
}

/* CLOSE */

static void close_vector(void **state)
{
	struct rnbd_wire_close msg;
	struct vec v = vec_load("close_7");
	u32 id = 0;

	(void)state;
	memset(&msg, 0xff, sizeof(msg));
	rnbd_close_encode(&msg, 7);
	assert_vec("close_7", &msg, sizeof(msg));
	assert_int_equal(rnbd_close_decode(v.data, v.len, &id), 0);
	assert_int_equal(id, 7);
	vec_free(&v);
}

static void close_bounds(void **state)
{
	static const u16 types[] = { 0, 1, 2, 3, 4, 6, 0x105, 0xffff };
	struct vec v = vec_load("close_7");
	size_t i;
	u32 id;

	(void)state;
	for (i = 0; i < v.len; i++) {
		u8 *p = exact_copy(v.data, i);

		assert_case(rnbd_close_decode(p, i, &id), -EINVAL,
			    "%zu bytes", i);
		free(p);
	}
	put16(v.data, 2, 0xffff);
	put32(v.data, 4, 0xfedcba98);
	assert_int_equal(rnbd_close_decode(v.data, v.len, &id), 0);
	assert_int_equal(id, 0xfedcba98);
	for (i = 0; i < ARRAY_LEN(types); i++) {
		put16(v.data, 0, types[i]);
		assert_case(rnbd_close_decode(v.data, v.len, &id), -EINVAL,
			    "type %u", types[i]);
	}
	vec_free(&v);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(msg_type),
		cmocka_unit_test(msg_types),
		cmocka_unit_test(sess_info_vectors),
		cmocka_unit_test(sess_info_bounds),
		cmocka_unit_test(open_vectors),
		cmocka_unit_test(open_bounds),
		cmocka_unit_test(open_name_length),
		cmocka_unit_test(open_name_bytes),
		cmocka_unit_test(open_name_dots),
		cmocka_unit_test(name_check_sizes),
		cmocka_unit_test(open_encode_long_name),
		cmocka_unit_test(open_rsp_vectors),
		cmocka_unit_test(open_rsp_fields),
		cmocka_unit_test(open_rsp_short_and_type),
		cmocka_unit_test(open_rsp_garbage_ignored),
		cmocka_unit_test(open_rsp_block_sizes),
		cmocka_unit_test(open_rsp_capacity),
		cmocka_unit_test(open_rsp_discard_limits),
		cmocka_unit_test(open_rsp_features),
		cmocka_unit_test(open_rsp_encode_narrow_fields),
		cmocka_unit_test(close_vector),
		cmocka_unit_test(close_bounds),
	};

	return cmocka_run_group_tests_name("rnbd_wire", tests, NULL, NULL);
}
