// SPDX-License-Identifier: GPL-2.0
/* CONN_REQ, CONN_RSP and rejects: vectors, and every bound from both sides */
#include "unit.h"

static struct rtrs_conn_req sample_req(u16 cid, u16 recon_cnt, bool first_conn)
{
	struct rtrs_conn_req req = {
		.cid = cid,
		.cid_num = 9,
		.recon_cnt = recon_cnt,
		.first_conn = first_conn,
	};
	int i;

	for (i = 0; i < RTRS_UUID_LEN; i++) {
		req.path_uuid[i] = 0x10 + i;
		req.session_uuid[i] = 0xa0 + i;
	}
	return req;
}

static void check_req(const char *name, u16 cid, u16 recon_cnt, bool first)
{
	struct rtrs_conn_req req = sample_req(cid, recon_cnt, first), got;
	struct rtrs_wire_conn_req msg;
	struct vec v = vec_load(name);

	memset(&msg, 0xff, sizeof(msg));
	rtrs_conn_req_encode(&msg, &req);
	assert_vec(name, &msg, sizeof(msg));

	assert_int_equal(rtrs_conn_req_decode(v.data, v.len, &got), 0);
	assert_int_equal(got.cid, cid);
	assert_int_equal(got.cid_num, 9);
	assert_int_equal(got.recon_cnt, recon_cnt);
	assert_int_equal(got.first_conn, first);
	assert_memory_equal(got.path_uuid, req.path_uuid, 16);
	assert_memory_equal(got.session_uuid, req.session_uuid, 16);
	vec_free(&v);
}

static void conn_req_vectors(void **state)
{
	(void)state;
	check_req("conn_req_first", 0, 1, true);
	check_req("conn_req_added", 0, 3, false);
	check_req("conn_req_cid8", 8, 3, true);
}

/* The whole private data of an IPv4 REQ: CM header, then our 56 bytes */
static void conn_req_behind_cm_header(void **state)
{
	struct rtrs_conn_req req = sample_req(0, 1, true);
	struct rtrs_wire_conn_req msg;
	struct vec v = vec_load("cm_req_ipv4");

	(void)state;
	rtrs_conn_req_encode(&msg, &req);
	assert_int_equal(v.len, 36 + sizeof(msg));
	assert_memory_equal(v.data + 36, &msg, sizeof(msg));
	vec_free(&v);
}

/* AF_IB: 36 more bytes follow; whatever they hold is not looked at */
static void conn_req_longer_than_needed(void **state)
{
	struct vec v = vec_load("conn_req_first");
	struct rtrs_conn_req a, b;
	u8 buf[92];

	(void)state;
	memset(buf, 0xee, sizeof(buf));
	memcpy(buf, v.data, v.len);
	memset(&a, 0, sizeof(a));
	memset(&b, 0, sizeof(b));
	assert_int_equal(rtrs_conn_req_decode(v.data, v.len, &a), 0);
	assert_int_equal(rtrs_conn_req_decode(buf, sizeof(buf), &b), 0);
	assert_memory_equal(&a, &b, sizeof(a));
	vec_free(&v);
}

static void conn_req_short(void **state)
{
	struct vec v = vec_load("conn_req_first");
	struct rtrs_conn_req got;
	size_t len;

	(void)state;
	for (len = 0; len < v.len; len++) {
		u8 *p = exact_copy(v.data, len);

		assert_case(rtrs_conn_req_decode(p, len, &got), -EMSGSIZE,
			    "%zu bytes", len);
		free(p);
	}
	vec_free(&v);
}

static void conn_req_protocol(void **state)
{
	static const struct {
		u16 magic, version;
		int want;
	} c[] = {
		{ 0x1bbd, 0x0200, 0 },
		{ 0x1bbd, 0x0201, 0 },	/* only the major byte counts */
		{ 0x1bbd, 0x02ff, 0 },
		{ 0x1bbd, 0x01ff, -EPROTO },
		{ 0x1bbd, 0x0300, -EPROTO },
		{ 0x1bbd, 0x0002, -EPROTO },
		{ 0x1bbd, 0x0000, -EPROTO },
		{ 0x1bbd, 0xffff, -EPROTO },
		{ 0x1bbc, 0x0200, -EPROTO },
		{ 0x1bbe, 0x0200, -EPROTO },
		{ 0xbd1b, 0x0200, -EPROTO },
		{ 0x0000, 0x0200, -EPROTO },
	};
	struct vec v = vec_load("conn_req_first");
	struct rtrs_conn_req got;
	size_t i;

	(void)state;
	for (i = 0; i < ARRAY_LEN(c); i++) {
		put16(v.data, 2, c[i].magic);
		put16(v.data, 4, c[i].version);
		assert_case(rtrs_conn_req_decode(v.data, v.len, &got),
			    c[i].want, "magic %#x version %#x", c[i].magic,
			    c[i].version);
	}
	vec_free(&v);
}

static void conn_req_cid_bounds(void **state)
{
	static const struct {
		u16 cid, cid_num;
		int want;
	} c[] = {
		{ 0, 0, -EINVAL },
		{ 0, 1, 0 },
		{ 1, 1, -EINVAL },
		{ 1, 2, 0 },
		{ 2, 2, -EINVAL },
		{ 8, 9, 0 },
		{ 9, 9, -EINVAL },
		{ 65535, 9, -EINVAL },
		{ 0, 4095, 0 },
		{ 0, 4096, 0 },
		{ 4095, 4096, 0 },
		{ 4096, 4096, -EINVAL },
		{ 0, 4097, -EINVAL },
		{ 0, 65535, -EINVAL },
	};
	struct vec v = vec_load("conn_req_first");
	struct rtrs_conn_req got;
	size_t i;

	(void)state;
	for (i = 0; i < ARRAY_LEN(c); i++) {
		put16(v.data, 6, c[i].cid);
		put16(v.data, 8, c[i].cid_num);
		assert_case(rtrs_conn_req_decode(v.data, v.len, &got),
			    c[i].want, "cid %u of %u", c[i].cid, c[i].cid_num);
	}
	vec_free(&v);
}

static void conn_req_recon_cnt_any(void **state)
{
	static const u16 c[] = { 0, 1, 255, 256, 32768, 65535 };
	struct vec v = vec_load("conn_req_first");
	struct rtrs_conn_req got;
	size_t i;

	(void)state;
	for (i = 0; i < ARRAY_LEN(c); i++) {
		put16(v.data, 10, c[i]);
		assert_int_equal(rtrs_conn_req_decode(v.data, v.len, &got), 0);
		assert_int_equal(got.recon_cnt, c[i]);
	}
	vec_free(&v);
}

/* Big-endian mainline hosts set 0x80; any bit means yes */
static void conn_req_first_conn_any_bit(void **state)
{
	struct vec v = vec_load("conn_req_first");
	struct rtrs_conn_req got;
	int i;

	(void)state;
	for (i = 0; i < 256; i++) {
		v.data[44] = i;
		assert_int_equal(rtrs_conn_req_decode(v.data, v.len, &got), 0);
		assert_case(got.first_conn, i != 0, "byte %#x", i);
	}
	vec_free(&v);
}

static void conn_req_reserved_ignored(void **state)
{
	struct vec v = vec_load("conn_req_added");
	struct rtrs_conn_req a, b;

	(void)state;
	memset(&a, 0, sizeof(a));
	memset(&b, 0, sizeof(b));
	assert_int_equal(rtrs_conn_req_decode(v.data, v.len, &a), 0);
	memset(v.data + 45, 0xff, 11);
	assert_int_equal(rtrs_conn_req_decode(v.data, v.len, &b), 0);
	assert_memory_equal(&a, &b, sizeof(a));
	vec_free(&v);
}

/* CONN_RSP */

static void check_accept(const char *name, u16 depth, u32 io_size, bool new_rkey)
{
	struct rtrs_conn_rsp rsp = {
		.queue_depth = depth,
		.max_io_size = io_size,
		.max_hdr_size = HDR_SIZE,
		.new_rkey = new_rkey,
	}, got;
	struct rtrs_wire_conn_rsp msg;
	struct vec v = vec_load(name);

	memset(&msg, 0xff, sizeof(msg));
	rtrs_conn_rsp_encode(&msg, &rsp);
	assert_vec(name, &msg, sizeof(msg));

	assert_int_equal(rtrs_conn_rsp_decode(v.data, v.len, true, &got), 0);
	assert_int_equal(got.error, 0);
	assert_int_equal(got.queue_depth, depth);
	assert_int_equal(got.max_io_size, io_size);
	assert_int_equal(got.max_hdr_size, HDR_SIZE);
	assert_int_equal(got.new_rkey, new_rkey);
	vec_free(&v);
}

static void conn_rsp_accept_vectors(void **state)
{
	(void)state;
	check_accept("conn_rsp_inval", 512, 126976, true);
	check_accept("conn_rsp_plain", 128, 1044480, false);
}

static void check_reject(const char *name, int error)
{
	/* What else stands in the structure must not reach the wire. */
	struct rtrs_conn_rsp rsp = {
		.error = error,
		.queue_depth = 512,
		.max_io_size = 126976,
		.max_hdr_size = 4096,
		.new_rkey = true,
	}, got;
	struct rtrs_wire_conn_rsp msg;
	struct vec v = vec_load(name);

	memset(&msg, 0xff, sizeof(msg));
	rtrs_conn_rsp_encode(&msg, &rsp);
	assert_vec(name, &msg, sizeof(msg));

	assert_int_equal(rtrs_reject_decode(v.data, v.len), error);
	/* The same bytes in an accept: an error as well */
	assert_int_equal(rtrs_conn_rsp_decode(v.data, v.len, true, &got),
			 error);
	assert_int_equal(rtrs_conn_rsp_decode(v.data, v.len, false, &got),
			 error);
	vec_free(&v);
}

static void conn_rsp_reject_vectors(void **state)
{
	(void)state;
	check_reject("conn_rsp_econnreset", -ECONNRESET);
	check_reject("conn_rsp_enxio", -ENXIO);
	check_reject("conn_rsp_eexist", -EEXIST);
	check_reject("conn_rsp_enomem", -ENOMEM);
}

static void conn_rsp_longer_than_needed(void **state)
{
	struct vec v = vec_load("conn_rsp_inval");
	struct rtrs_conn_rsp got;
	u8 buf[196];

	(void)state;
	memset(buf, 0xee, sizeof(buf));
	memcpy(buf, v.data, v.len);
	assert_int_equal(rtrs_conn_rsp_decode(buf, 196, true, &got), 0);
	assert_int_equal(got.queue_depth, 512);
	vec_free(&v);
}

static void conn_rsp_short(void **state)
{
	struct vec v = vec_load("conn_rsp_inval");
	struct rtrs_conn_rsp got;
	size_t len;

	(void)state;
	for (len = 0; len < v.len; len++) {
		u8 *p = exact_copy(v.data, len);

		assert_case(rtrs_conn_rsp_decode(p, len, true, &got),
			    -EMSGSIZE, "%zu bytes", len);
		assert_case(rtrs_conn_rsp_decode(p, len, false, &got),
			    -EMSGSIZE, "%zu bytes", len);
		free(p);
	}
	vec_free(&v);
}

static void conn_rsp_protocol(void **state)
{
	static const struct {
		u16 magic, version;
		int want;
	} c[] = {
		{ 0x1bbd, 0x0200, 0 },	 { 0x1bbd, 0x02ff, 0 },
		{ 0x1bbd, 0x01ff, -EPROTO }, { 0x1bbd, 0x0300, -EPROTO },
		{ 0x1bbd, 0x0002, -EPROTO }, { 0x1bbc, 0x0200, -EPROTO },
		{ 0x1bbe, 0x0200, -EPROTO }, { 0xbd1b, 0x0200, -EPROTO },
	};
	struct vec v = vec_load("conn_rsp_inval");
	struct rtrs_conn_rsp got;
	size_t i;

	(void)state;
	for (i = 0; i < ARRAY_LEN(c); i++) {
		put16(v.data, 0, c[i].magic);
		put16(v.data, 2, c[i].version);
		assert_case(rtrs_conn_rsp_decode(v.data, v.len, true, &got),
			    c[i].want, "magic %#x version %#x", c[i].magic,
			    c[i].version);
	}
	vec_free(&v);
}

/* An accept with a positive "errno", or one beyond all, is no errno at all */
static void conn_rsp_error_values(void **state)
{
	struct vec v = vec_load("conn_rsp_inval");
	struct rtrs_conn_rsp got;

	(void)state;
	put16(v.data, 4, 1);
	assert_int_equal(rtrs_conn_rsp_decode(v.data, v.len, true, &got),
			 -EPROTO);
	put16(v.data, 4, 0x7fff);
	assert_int_equal(rtrs_conn_rsp_decode(v.data, v.len, true, &got),
			 -EPROTO);
	put16(v.data, 4, 0x8000);
	assert_int_equal(rtrs_conn_rsp_decode(v.data, v.len, true, &got),
			 -EPROTO);
	/* -EIOCBQUEUED */
	put16(v.data, 4, 0xfdef);
	assert_int_equal(rtrs_conn_rsp_decode(v.data, v.len, true, &got),
			 -EPROTO);
	put16(v.data, 4, 0xfe00);
	assert_int_equal(rtrs_conn_rsp_decode(v.data, v.len, true, &got),
			 -EPROTO);
	put16(v.data, 4, 0xfe01);
	assert_int_equal(rtrs_conn_rsp_decode(v.data, v.len, true, &got), -511);
	put16(v.data, 4, 0xffff);
	assert_int_equal(rtrs_conn_rsp_decode(v.data, v.len, true, &got), -1);
	vec_free(&v);
}

static void conn_rsp_geometry_bounds(void **state)
{
	static const struct {
		u32 depth, io, hdr;
		int want;
	} c[] = {
		{ 0, 126976, 4096, -EINVAL },
		{ 1, 126976, 4096, 0 },
		{ 2, 126976, 4096, 0 },
		/* one chunk may use all 28 bits, not one byte more */
		{ 1, (1 << 28) - 4096, 4096, 0 },
		{ 1, (1 << 28) - 4095, 4096, -EINVAL },
		{ 2, (1 << 27) - 4096, 4096, 0 },
		{ 2, (1 << 27) - 4095, 4096, -EINVAL },
		{ 1, 1 << 28, 4096, -EINVAL },
		{ 1, (1 << 28) + 1, 4096, -EINVAL },
		{ 1, 0xffffffff, 4096, -EINVAL },
		{ 1, 0xfffff000, 4096, -EINVAL },
		/* sums that wrap to something harmless */
		{ 1, 0xffff0000, 65536, -EINVAL },
		{ 1, 0xffff2000, 65536, -EINVAL },
		/* both powers of two and their neighbours */
		{ 2048, 126976, 4096, 0 },
		{ 2049, 126976, 4096, -EINVAL },
		{ 2048, 126977, 4096, -EINVAL },
		{ 1024, 131072, 4096, 0 },
		{ 1025, 131072, 4096, -EINVAL },
		{ 32767, 4096, 4096, 0 },
		{ 32768, 4096, 4096, 0 },
		{ 32769, 4096, 4096, -EINVAL },
		{ 65535, 4096, 4096, -EINVAL },
		/* the parts */
		{ 1, 4095, 65536, -EINVAL },
		{ 1, 4096, 65536, 0 },
		{ 1, 0, 65536, -EINVAL },
		{ 1, 126976, 0, -EINVAL },
		{ 1, 126976, 4095, -EINVAL },
		{ 1, 126976, 4097, 0 },
		{ 1, 126976, 16384, 0 },
		{ 1, 126976, 65536, 0 },
		{ 1, 126976, 65537, -EINVAL },
		{ 1, 126976, 0xffffffff, -EINVAL },
	};
	struct vec v = vec_load("conn_rsp_inval");
	struct rtrs_conn_rsp got;
	size_t i;

	(void)state;
	for (i = 0; i < ARRAY_LEN(c); i++) {
		put16(v.data, 6, c[i].depth);
		put32(v.data, 8, c[i].io);
		put32(v.data, 12, c[i].hdr);
		assert_case(rtrs_conn_rsp_decode(v.data, v.len, true, &got),
			    c[i].want, "depth %u io %u hdr %u", c[i].depth,
			    c[i].io, c[i].hdr);
		/* on other cids these fields carry no meaning */
		assert_case(rtrs_conn_rsp_decode(v.data, v.len, false, &got),
			    0, "other cid, depth %u io %u hdr %u", c[i].depth,
			    c[i].io, c[i].hdr);
	}
	vec_free(&v);
}

static void geometry_table(void **state)
{
	static const struct {
		u32 depth, bits;
	} c[] = {
		{ 1, 0 },    { 2, 1 },	   { 3, 2 },	  { 4, 2 },
		{ 5, 3 },    { 128, 7 },   { 500, 9 },	  { 512, 9 },
		{ 513, 10 }, { 1024, 10 }, { 4096, 12 },  { 32768, 15 },
		{ 32769, 16 }, { 65535, 16 }, { 65536, 16 }, { 65537, 17 },
		{ 0xffffffff, 32 },
	};
	size_t i;

	(void)state;
	for (i = 0; i < ARRAY_LEN(c); i++)
		assert_case(rtrs_bits(c[i].depth), c[i].bits, "bits of %u",
			    c[i].depth);
	assert_true(rtrs_geometry_ok(1, 8192));
	assert_false(rtrs_geometry_ok(1, 8191));
	assert_false(rtrs_geometry_ok(0, 8192));
	assert_false(rtrs_geometry_ok(65536, 8192));
	assert_false(rtrs_geometry_ok(65535, 4096));
	assert_false(rtrs_geometry_ok(0xffffffff, 8192));
	assert_false(rtrs_geometry_ok(1, 0xffffffff));
	/* the default size of a chunk with a full 128 KiB of data */
	assert_true(rtrs_geometry_ok(1024, 135168));
	assert_false(rtrs_geometry_ok(1025, 135168));
}

static void conn_rsp_new_rkey_bit_only(void **state)
{
	static const struct {
		u32 flags;
		bool want;
	} c[] = {
		{ 0, false }, { 1, false }, { 2, true }, { 3, true },
		{ 4, false }, { 0xfffffffd, false }, { 0xffffffff, true },
		{ 0x200, false },
	};
	struct vec v = vec_load("conn_rsp_inval");
	struct rtrs_conn_rsp got;
	size_t i;

	(void)state;
	for (i = 0; i < ARRAY_LEN(c); i++) {
		put32(v.data, 16, c[i].flags);
		assert_int_equal(rtrs_conn_rsp_decode(v.data, v.len, true,
						      &got), 0);
		assert_case(got.new_rkey, c[i].want, "flags %#x", c[i].flags);
	}
	vec_free(&v);
}

static void conn_rsp_reserved_ignored(void **state)
{
	struct vec v = vec_load("conn_rsp_inval");
	struct rtrs_conn_rsp got;

	(void)state;
	memset(v.data + 20, 0xff, 36);
	assert_int_equal(rtrs_conn_rsp_decode(v.data, v.len, true, &got), 0);
	assert_int_equal(got.queue_depth, 512);
	vec_free(&v);
}

/* A reject always yields an errno, whatever it holds */
static void reject_values(void **state)
{
	static const struct {
		u16 error;
		int want;
	} c[] = {
		{ 0xff98, -104 },	{ 0xffff, -1 },
		{ 0xfff0, -EBUSY },	{ 0xfe01, -511 },
		{ 0xfe00, -ECONNREFUSED }, { 0xfdef, -ECONNREFUSED },
		{ 0xf001, -ECONNREFUSED }, { 0xf000, -ECONNREFUSED },
		{ 0x8000, -ECONNREFUSED },
		{ 0, -ECONNREFUSED },	{ 1, -ECONNREFUSED },
		{ 104, -ECONNREFUSED }, { 0x7fff, -ECONNREFUSED },
	};
	struct vec v = vec_load("conn_rsp_econnreset");
	u8 zero[148] = {};
	size_t i;

	(void)state;
	for (i = 0; i < ARRAY_LEN(c); i++) {
		put16(v.data, 4, c[i].error);
		assert_case(rtrs_reject_decode(v.data, v.len), c[i].want,
			    "error %#x", c[i].error);
	}
	/* a reject of the CM itself: 148 zero bytes are not "errno 0" */
	assert_int_equal(rtrs_reject_decode(zero, sizeof(zero)),
			 -ECONNREFUSED);
	assert_int_equal(rtrs_reject_decode(NULL, 0), -ECONNREFUSED);
	assert_int_equal(rtrs_reject_decode(NULL, 148), -ECONNREFUSED);
	vec_free(&v);
}

static void reject_short(void **state)
{
	struct vec v = vec_load("conn_rsp_enxio");
	size_t len;

	(void)state;
	for (len = 0; len < v.len; len++) {
		u8 *p = exact_copy(v.data, len);

		assert_case(rtrs_reject_decode(p, len), -ECONNREFUSED,
			    "%zu bytes", len);
		free(p);
	}
	vec_free(&v);
}

/* The server's magic and version are not looked at: the errno says more */
static void reject_foreign(void **state)
{
	struct vec v = vec_load("conn_rsp_enxio");

	(void)state;
	put32(v.data, 0, 0);
	assert_int_equal(rtrs_reject_decode(v.data, v.len), -ENXIO);
	vec_free(&v);
}

/* Numbers that peers and scripts rely on */
static void constants(void **state)
{
	(void)state;
	assert_int_equal(RTRS_DEFAULT_PORT, 1234);
	assert_int_equal(RTRS_MAGIC, 0x1bbd);
	assert_int_equal(RTRS_VERSION, 0x0200);
	assert_int_equal(RTRS_MAX_CONNS, 4096);
	assert_int_equal(RTRS_MAX_PATHS, 128);
	assert_int_equal(RTRS_MAX_DEPTH, 65535);
	assert_int_equal(RTRS_MIN_CHUNK, 8192);
	assert_int_equal(RTRS_CM_PRIV_LEN, 56);
	assert_int_equal(RTRS_NAME_LEN, 255);
	assert_int_equal(RTRS_FLAG_NEED_INVAL, 1);
	assert_int_equal(RTRS_FLAG_NEW_RKEY, 2);
	assert_int_equal(RTRS_MSG_INFO_REQ, 0);
	assert_int_equal(RTRS_MSG_INFO_RSP, 1);
	assert_int_equal(RTRS_MSG_WRITE, 2);
	assert_int_equal(RTRS_MSG_READ, 3);
	assert_int_equal(RTRS_MSG_RKEY_RSP, 4);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(conn_req_vectors),
		cmocka_unit_test(conn_req_behind_cm_header),
		cmocka_unit_test(conn_req_longer_than_needed),
		cmocka_unit_test(conn_req_short),
		cmocka_unit_test(conn_req_protocol),
		cmocka_unit_test(conn_req_cid_bounds),
		cmocka_unit_test(conn_req_recon_cnt_any),
		cmocka_unit_test(conn_req_first_conn_any_bit),
		cmocka_unit_test(conn_req_reserved_ignored),
		cmocka_unit_test(conn_rsp_accept_vectors),
		cmocka_unit_test(conn_rsp_reject_vectors),
		cmocka_unit_test(conn_rsp_longer_than_needed),
		cmocka_unit_test(conn_rsp_short),
		cmocka_unit_test(conn_rsp_protocol),
		cmocka_unit_test(conn_rsp_error_values),
		cmocka_unit_test(conn_rsp_geometry_bounds),
		cmocka_unit_test(geometry_table),
		cmocka_unit_test(conn_rsp_new_rkey_bit_only),
		cmocka_unit_test(conn_rsp_reserved_ignored),
		cmocka_unit_test(reject_values),
		cmocka_unit_test(reject_short),
		cmocka_unit_test(reject_foreign),
		cmocka_unit_test(constants),
	};

	return cmocka_run_group_tests_name("rtrs_connect", tests, NULL, NULL);
}
