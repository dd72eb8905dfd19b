// SPDX-License-Identifier: GPL-2.0
/* Request headers: vectors, and what a server must answer or close on */
#include "unit.h"

static const struct rtrs_desc sample_desc = {
	.addr = 0x123456789000,
	.key = 0x3c0de,
	.len = 4096,
};

static int decode(const void *buf, size_t len, u32 off, struct rtrs_io_hdr *io)
{
	return rtrs_io_hdr_decode(buf, len, off, IO_SIZE, HDR_SIZE, io);
}

static void write_hdr_vectors(void **state)
{
	static const struct {
		const char *name;
		u16 usr_len;
	} t[] = { { "write_hdr_32", 32 }, { "write_hdr_8", 8 } };
	struct rtrs_io_hdr io;
	size_t i;

	(void)state;
	for (i = 0; i < ARRAY_LEN(t); i++) {
		struct vec v = vec_load(t[i].name);
		u8 buf[32];
		u32 n;

		n = rtrs_write_hdr_encode(buf, t[i].usr_len);
		assert_vec(t[i].name, buf, n);
		memset(&io, 0xff, sizeof(io));
		assert_int_equal(decode(v.data, v.len, 512 + t[i].usr_len,
					&io), 0);
		assert_int_equal(io.dir, RTRS_DIR_WRITE);
		assert_int_equal(io.usr_len, t[i].usr_len);
		assert_int_equal(io.data_len, 512);
		assert_false(io.has_desc);
		assert_false(io.need_inval);
		vec_free(&v);
	}
}

static void read_hdr_vectors(void **state)
{
	struct vec v = vec_load("read_hdr_desc");
	struct rtrs_io_hdr io;
	u8 buf[64];
	u32 n;

	(void)state;
	memset(buf, 0xff, sizeof(buf));
	n = rtrs_read_hdr_encode(buf, 32, true, &sample_desc);
	assert_vec("read_hdr_desc", buf, n);
	memset(&io, 0xff, sizeof(io));
	assert_int_equal(decode(v.data, v.len, 4128, &io), 0);
	assert_int_equal(io.dir, RTRS_DIR_READ);
	assert_int_equal(io.usr_len, 32);
	assert_int_equal(io.data_len, 4096);
	assert_true(io.has_desc);
	assert_true(io.need_inval);
	assert_int_equal(io.desc.addr, sample_desc.addr);
	assert_int_equal(io.desc.key, sample_desc.key);
	assert_int_equal(io.desc.len, sample_desc.len);
	vec_free(&v);

	v = vec_load("read_hdr_empty");
	memset(buf, 0xff, sizeof(buf));
	/* without data there is nothing to invalidate */
	n = rtrs_read_hdr_encode(buf, 32, true, NULL);
	assert_vec("read_hdr_empty", buf, n);
	n = rtrs_read_hdr_encode(buf, 32, false, NULL);
	assert_vec("read_hdr_empty", buf, n);
	memset(&io, 0xff, sizeof(io));
	assert_int_equal(decode(v.data, v.len, 32, &io), 0);
	assert_int_equal(io.dir, RTRS_DIR_READ);
	assert_int_equal(io.usr_len, 32);
	assert_int_equal(io.data_len, 0);
	assert_false(io.has_desc);
	assert_false(io.need_inval);
	vec_free(&v);
}

/* A client that invalidates its own keys */
static void read_hdr_without_inval(void **state)
{
	struct rtrs_io_hdr io;
	u8 buf[64];
	u32 n = rtrs_read_hdr_encode(buf, 32, false, &sample_desc);

	(void)state;
	assert_int_equal(n, 24);
	assert_int_equal(get32(buf, 4), 0x00010000);
	assert_int_equal(decode(buf, n, 4128, &io), 0);
	assert_true(io.has_desc);
	assert_false(io.need_inval);
}

static void hdr_lengths(void **state)
{
	static const char *const names[] = { "write_hdr_32", "read_hdr_desc",
					     "read_hdr_empty" };
	static const u32 off[] = { 32, 4128, 32 };
	struct rtrs_io_hdr io;
	size_t i, len;

	(void)state;
	assert_int_equal(RTRS_MAX_IO_HDR, 24);
	for (i = 0; i < ARRAY_LEN(names); i++) {
		struct vec v = vec_load(names[i]);

		for (len = 0; len < v.len; len++) {
			u8 *p = exact_copy(v.data, len);

			assert_case(decode(p, len, off[i], &io), -EPROTO,
				    "%s, %zu bytes", names[i], len);
			free(p);
		}
		assert_case(decode(v.data, v.len, off[i], &io), 0, "%s",
			    names[i]);
		vec_free(&v);
	}
}

static void hdr_types(void **state)
{
	struct vec v = vec_load("read_hdr_desc");
	struct rtrs_io_hdr io;
	u32 type;

	(void)state;
	for (type = 0; type < 0x10000; type++) {
		put16(v.data, 0, type);
		if (type == 2 || type == 3)
			continue;
		assert_case(decode(v.data, v.len, 4128, &io), -EPROTO,
			    "type %u", type);
	}
	vec_free(&v);
}

static void read_sg_cnt(void **state)
{
	static const u16 t[] = { 2, 3, 128, 0x100, 0xffff };
	struct vec v = vec_load("read_hdr_desc");
	struct rtrs_io_hdr io;
	size_t i;

	(void)state;
	for (i = 0; i < ARRAY_LEN(t); i++) {
		put16(v.data, 6, t[i]);
		assert_case(decode(v.data, v.len, 4128, &io), -EINVAL,
			    "sg_cnt %u", t[i]);
		/* answerable: a READ whose key is not touched */
		assert_int_equal(io.dir, RTRS_DIR_READ);
		assert_false(io.has_desc);
		assert_false(io.need_inval);
		assert_int_equal(io.data_len, 0);
	}
	vec_free(&v);
}

static void read_flags(void **state)
{
	static const u16 bad[] = { 2, 3, 4, 0x100, 0x8000, 0xfffe, 0xffff };
	struct vec v = vec_load("read_hdr_desc");
	struct rtrs_io_hdr io;
	size_t i;

	(void)state;
	for (i = 0; i < ARRAY_LEN(bad); i++) {
		put16(v.data, 4, bad[i]);
		assert_case(decode(v.data, v.len, 4128, &io), -EINVAL,
			    "flags %#x", bad[i]);
		/* the error answer still needs these */
		assert_true(io.has_desc);
		assert_case(io.need_inval, bad[i] & 1, "flags %#x", bad[i]);
		assert_int_equal(io.desc.key, sample_desc.key);
	}
	/* NEED_INVAL without a descriptor means nothing */
	vec_free(&v);
	v = vec_load("read_hdr_empty");
	put16(v.data, 4, 1);
	assert_int_equal(decode(v.data, v.len, 32, &io), 0);
	assert_false(io.need_inval);
	vec_free(&v);
}

/* The answer is exactly the data area: no less, no more, never nothing */
static void read_desc_len(void **state)
{
	static const struct {
		u32 len, off;
		int want;
	} t[] = {
		{ 4096, 4128, 0 },
		{ 4095, 4128, -EINVAL },
		{ 4097, 4128, -EINVAL },
		{ 0, 4128, -EINVAL },
		{ 0, 32, -EINVAL },
		{ 1, 33, 0 },
		{ 1, 32, -EINVAL },
		{ 131072, 4128, -EINVAL },
		{ 0xffffffff, 4128, -EINVAL },
		{ 0xffffffff, 31, -EINVAL },
		{ 126976, 127008, 0 },
		{ 126977, 127009, -EINVAL },
	};
	struct vec v = vec_load("read_hdr_desc");
	struct rtrs_io_hdr io;
	size_t i;

	(void)state;
	for (i = 0; i < ARRAY_LEN(t); i++) {
		put32(v.data, 20, t[i].len);
		assert_case(decode(v.data, v.len, t[i].off, &io), t[i].want,
			    "desc.len %u off %u", t[i].len, t[i].off);
		assert_int_equal(io.dir, RTRS_DIR_READ);
		assert_true(io.has_desc);
		assert_true(io.need_inval);
		assert_int_equal(io.desc.key, sample_desc.key);
	}
	vec_free(&v);
	/* data reserved, but nowhere to put it */
	v = vec_load("read_hdr_empty");
	assert_int_equal(decode(v.data, v.len, 33, &io), -EINVAL);
	assert_int_equal(decode(v.data, v.len, 4128, &io), -EINVAL);
	vec_free(&v);
}

static void usr_len_bounds(void **state)
{
	static const struct {
		u16 usr_len;
		u32 off;
		int want;
	} t[] = {
		{ 0, 0, 0 },
		{ 0, 512, 0 },
		{ 32, 31, -EINVAL },
		{ 32, 32, 0 },
		{ 32, 33, 0 },
		{ 1, 0, -EINVAL },
		{ 65535, 65534, -EINVAL },
		{ 4095, 8192, 0 },
		{ 4096, 8192, 0 },
		{ 4097, 8192, -EINVAL },
		{ 65535, 131071, -EINVAL },
	};
	struct vec v = vec_load("write_hdr_32");
	struct rtrs_io_hdr io;
	size_t i;

	(void)state;
	for (i = 0; i < ARRAY_LEN(t); i++) {
		put16(v.data, 2, t[i].usr_len);
		assert_case(decode(v.data, v.len, t[i].off, &io), t[i].want,
			    "usr_len %u off %u", t[i].usr_len, t[i].off);
		assert_int_equal(io.dir, RTRS_DIR_WRITE);
		if (!t[i].want)
			assert_int_equal(io.data_len,
					 t[i].off - t[i].usr_len);
	}
	vec_free(&v);
}

static void data_len_bounds(void **state)
{
	struct vec v = vec_load("write_hdr_32");
	struct rtrs_io_hdr io;

	(void)state;
	assert_int_equal(decode(v.data, 4, IO_SIZE + 31, &io), 0);
	assert_int_equal(io.data_len, IO_SIZE - 1);
	assert_int_equal(decode(v.data, 4, IO_SIZE + 32, &io), 0);
	assert_int_equal(io.data_len, IO_SIZE);
	assert_int_equal(decode(v.data, 4, IO_SIZE + 33, &io), -EINVAL);
	assert_int_equal(decode(v.data, 4, CHUNK - 4, &io), -EINVAL);
	vec_free(&v);
}

/* The caller hands over what the chunk still has behind the offset */
static void hdr_cut_by_chunk_end(void **state)
{
	static const struct {
		const char *name;
		u32 need;
	} t[] = {
		{ "write_hdr_32", 4 },
		{ "read_hdr_empty", 8 },
		{ "read_hdr_desc", 24 },
	};
	struct rtrs_io_hdr io;
	size_t i;
	u32 left;

	(void)state;
	for (i = 0; i < ARRAY_LEN(t); i++) {
		struct vec v = vec_load(t[i].name);

		/* room for all data and messages: only the end matters here */
		for (left = 1; left <= 24; left++) {
			u32 off = CHUNK - left;
			size_t len = left < t[i].need ? left : t[i].need;
			u8 *p = exact_copy(v.data, len);
			int err = rtrs_io_hdr_decode(p, len, off, CHUNK, CHUNK,
						     &io);

			if (left < t[i].need)
				assert_case(err, -EPROTO, "%s %u before end",
					    t[i].name, left);
			else
				assert_case(err == -EPROTO, 0,
					    "%s %u before end", t[i].name,
					    left);
			free(p);
		}
		vec_free(&v);
	}
}

static void request_fits(void **state)
{
	static const struct {
		enum rtrs_dir dir;
		u32 usr_len, data_len;
		int want;
	} t[] = {
		{ RTRS_DIR_WRITE, 32, 0, 0 },
		{ RTRS_DIR_WRITE, 32, 126976, 0 },
		{ RTRS_DIR_WRITE, 32, 126977, -EMSGSIZE },
		{ RTRS_DIR_WRITE, 4092, 126976, 0 },
		{ RTRS_DIR_WRITE, 4093, 126976, -EMSGSIZE },
		{ RTRS_DIR_WRITE, 4096, 0, -EMSGSIZE },
		{ RTRS_DIR_WRITE, 32, 0xffffffff, -EMSGSIZE },
		{ RTRS_DIR_WRITE, 0xffffffff, 0, -EMSGSIZE },
		{ RTRS_DIR_READ, 32, 126976, 0 },
		{ RTRS_DIR_READ, 32, 126977, -EMSGSIZE },
		{ RTRS_DIR_READ, 4072, 126976, 0 },
		{ RTRS_DIR_READ, 4073, 126976, -EMSGSIZE },
		{ RTRS_DIR_READ, 0xffffffff, 0, -EMSGSIZE },
	};
	size_t i;

	(void)state;
	for (i = 0; i < ARRAY_LEN(t); i++)
		assert_case(rtrs_request_fits(t[i].dir, t[i].usr_len,
					      t[i].data_len, IO_SIZE,
					      HDR_SIZE), t[i].want,
			    "dir %d usr %u data %u", t[i].dir, t[i].usr_len,
			    t[i].data_len);
}

/* Whatever the client's check lets pass, the server's check accepts */
static void fitting_requests_decode(void **state)
{
	static const u32 data[] = { 0, 1, 512, 4096, 126975, 126976 };
	static const u32 usr[] = { 0, 8, 32, 264, 4071, 4072, 4073, 4092 };
	struct rtrs_io_hdr io;
	size_t i, j;
	int dir;

	(void)state;
	for (dir = 0; dir < 2; dir++) {
		for (i = 0; i < ARRAY_LEN(data) * ARRAY_LEN(usr); i++) {
			struct rtrs_desc d = { 0x1000, 1, 0 };
			u32 n, off;
			u8 buf[24];

			j = i % ARRAY_LEN(usr);
			d.len = data[i / ARRAY_LEN(usr)];
			if (rtrs_request_fits(dir, usr[j], d.len, IO_SIZE,
					      HDR_SIZE))
				continue;
			n = dir == RTRS_DIR_WRITE ?
				rtrs_write_hdr_encode(buf, usr[j]) :
				rtrs_read_hdr_encode(buf, usr[j], true,
						     d.len ? &d : NULL);
			off = d.len + usr[j];
			assert_true(off + n <= CHUNK);
			assert_case(decode(buf, n, off, &io), 0,
				    "dir %d data %u usr %u", dir, d.len,
				    usr[j]);
			assert_int_equal(io.data_len, d.len);
			assert_int_equal(io.usr_len, usr[j]);
			assert_int_equal(io.dir, dir);
		}
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(write_hdr_vectors),
		cmocka_unit_test(read_hdr_vectors),
		cmocka_unit_test(read_hdr_without_inval),
		cmocka_unit_test(hdr_lengths),
		cmocka_unit_test(hdr_types),
		cmocka_unit_test(read_sg_cnt),
		cmocka_unit_test(read_flags),
		cmocka_unit_test(read_desc_len),
		cmocka_unit_test(usr_len_bounds),
		cmocka_unit_test(data_len_bounds),
		cmocka_unit_test(hdr_cut_by_chunk_end),
		cmocka_unit_test(request_fits),
		cmocka_unit_test(fitting_requests_decode),
	};

	return cmocka_run_group_tests_name("rtrs_io", tests, NULL, NULL);
}
