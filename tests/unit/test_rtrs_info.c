// SPDX-License-Identifier: GPL-2.0
/* INFO exchange and RKEY_RSP: vectors, names, and how chunks are spread */
#include "unit.h"

/* INFO_REQ */

static void info_req_vector(void **state)
{
	struct rtrs_wire_info_req msg;
	struct vec v = vec_load("info_req");
	char name[RTRS_NAME_LEN] = "blktest";
	size_t i;

	(void)state;
	memset(&msg, 0xff, sizeof(msg));
	rtrs_info_req_encode(&msg, name);
	assert_vec("info_req", &msg, sizeof(msg));

	memset(name, 0xff, sizeof(name));
	assert_int_equal(rtrs_info_req_decode(v.data, v.len, name), 0);
	assert_string_equal(name, "blktest");
	for (i = strlen(name); i < sizeof(name); i++)
		assert_int_equal(name[i], 0);
	vec_free(&v);
}

static void info_req_short(void **state)
{
	struct vec v = vec_load("info_req");
	char name[RTRS_NAME_LEN];
	size_t len;

	(void)state;
	for (len = 0; len < v.len; len++) {
		u8 *p = exact_copy(v.data, len);

		assert_case(rtrs_info_req_decode(p, len, name), -EMSGSIZE,
			    "%zu bytes", len);
		free(p);
	}
	vec_free(&v);
}

static void info_req_type(void **state)
{
	static const u16 c[] = { 1, 2, 3, 4, 5, 0x100, 0xffff };
	struct vec v = vec_load("info_req");
	char name[RTRS_NAME_LEN];
	size_t i;

	(void)state;
	for (i = 0; i < ARRAY_LEN(c); i++) {
		put16(v.data, 0, c[i]);
		assert_case(rtrs_info_req_decode(v.data, v.len, name), -EPROTO,
			    "type %u", c[i]);
	}
	vec_free(&v);
}

static void info_req_reserved_ignored(void **state)
{
	struct vec v = vec_load("info_req");
	char name[RTRS_NAME_LEN];

	(void)state;
	memset(v.data + 257, 0xff, 15);
	/* bytes behind the NUL are not part of the name either */
	memset(v.data + 10, '/', 247);
	assert_int_equal(rtrs_info_req_decode(v.data, v.len, name), 0);
	assert_string_equal(name, "blktest");
	vec_free(&v);
}

/* A name of n characters; byte n is a NUL if there is room for it */
static int decode_name(const void *bytes, size_t n, char *name)
{
	struct vec v = vec_load("info_req");
	int err;

	memset(v.data + 2, 0, 255);
	memcpy(v.data + 2, bytes, n);
	err = rtrs_info_req_decode(v.data, v.len, name);
	vec_free(&v);
	return err;
}

static void info_req_name_length(void **state)
{
	char name[RTRS_NAME_LEN], bytes[256];

	(void)state;
	memset(bytes, 'n', sizeof(bytes));
	assert_int_equal(decode_name(bytes, 0, name), -EINVAL);
	assert_int_equal(decode_name(bytes, 1, name), 0);
	assert_int_equal(strlen(name), 1);
	assert_int_equal(decode_name(bytes, 253, name), 0);
	assert_int_equal(strlen(name), 253);
	assert_int_equal(decode_name(bytes, 254, name), 0);
	assert_int_equal(strlen(name), 254);
	assert_int_equal(decode_name(bytes, 255, name), -EINVAL);
}

static void info_req_name_bytes(void **state)
{
	char name[RTRS_NAME_LEN], bytes[3] = { 'a', 0, 'b' };
	int c;

	(void)state;
	for (c = 1; c < 256; c++) {
		bool bad = c <= ' ' || c == 0x7f || c == '/' || c == '.';

		bytes[1] = c;
		assert_case(decode_name(bytes, 3, name), bad ? -EINVAL : 0,
			    "byte %#x in a name", c);
		assert_case(decode_name(bytes + 1, 1, name), bad ? -EINVAL : 0,
			    "byte %#x as a name", c);
	}
}

/* The same rule for strings that do not come from the wire */
static void name_len_sizes(void **state)
{
	char *s;
	char big[300];
	size_t n;

	(void)state;
	assert_int_equal(rtrs_name_len("", 1), -EINVAL);
	assert_int_equal(rtrs_name_len("a", 2), 1);
	assert_int_equal(rtrs_name_len("session-1_x", 300), 11);
	/* not terminated within the given bytes */
	for (n = 0; n < 20; n++) {
		memset(big, 'a', n);
		s = exact_copy(big, n);
		assert_int_equal(rtrs_name_len(s, n), -EINVAL);
		free(s);
	}
	memset(big, 'a', sizeof(big));
	big[254] = 0;
	assert_int_equal(rtrs_name_len(big, sizeof(big)), 254);
	assert_int_equal(rtrs_name_len(big, 255), 254);
	assert_int_equal(rtrs_name_len(big, 254), -EINVAL);
	big[254] = 'a';
	big[255] = 0;
	assert_int_equal(rtrs_name_len(big, sizeof(big)), -EINVAL);
}

/* The encoder never lets a long name push out the NUL */
static void info_req_encode_long_name(void **state)
{
	struct rtrs_wire_info_req msg;
	char name[400], got[RTRS_NAME_LEN];

	(void)state;
	memset(name, 'a', sizeof(name));
	name[399] = 0;
	rtrs_info_req_encode(&msg, name);
	assert_int_equal(rtrs_info_req_decode(&msg, sizeof(msg), got), 0);
	assert_int_equal(strlen(got), 254);
}

/* INFO_RSP */

/* Build the message in exactly allocated memory */
static u8 *info_rsp(unsigned int n, size_t *len)
{
	u8 *p;

	*len = rtrs_info_rsp_size(n);
	assert_int_equal(*len, 8 + 16 * n);
	p = malloc(*len);
	memset(p, 0xff, *len);
	rtrs_info_rsp_encode((struct rtrs_wire_info_rsp *)p, n);
	return p;
}

static void set_desc(u8 *msg, unsigned int k, u64 addr, u32 key, u32 len)
{
	struct rtrs_desc d = { .addr = addr, .key = key, .len = len };

	rtrs_desc_encode((struct rtrs_wire_desc *)(msg + 8 + 16 * k), &d);
}

static struct rtrs_chunk_ref *chunks(u32 depth)
{
	return calloc(depth, sizeof(struct rtrs_chunk_ref));
}

static void info_rsp_vector_inval(void **state)
{
	struct rtrs_chunk_ref *c = chunks(4);
	struct vec v = vec_load("info_rsp_inval");
	size_t len;
	u8 *p = info_rsp(4, &len);
	u32 i;

	(void)state;
	for (i = 0; i < 4; i++)
		set_desc(p, i, 0x180000000 + (u64)i * 0x20000,
			 0x10001 + i * 0x100, CHUNK);
	assert_vec("info_rsp_inval", p, len);

	assert_int_equal(rtrs_info_rsp_decode(v.data, v.len, 4, CHUNK, c), 0);
	for (i = 0; i < 4; i++) {
		assert_int_equal(c[i].addr, 0x180000000 + (u64)i * 0x20000);
		assert_int_equal(c[i].key, 0x10001 + i * 0x100);
	}
	free(p);
	free(c);
	vec_free(&v);
}

static void info_rsp_vector_plain(void **state)
{
	static const struct {
		u32 id;
		u64 addr;
		u32 key;
	} want[] = {
		{ 0, 0x7f0000000000, 0x2a01 },
		{ 255, 0x7f0001fe0000, 0x2a01 },
		{ 256, 0x7f8000000000, 0x2b01 },
		{ 300, 0x7f8000580000, 0x2b01 },
		{ 511, 0x7f8001fe0000, 0x2b01 },
	};
	struct rtrs_chunk_ref *c = chunks(DEPTH);
	struct vec v = vec_load("info_rsp_plain");
	size_t len, i;
	u8 *p = info_rsp(2, &len);

	(void)state;
	set_desc(p, 0, 0x7f0000000000, 0x2a01, 33554432);
	set_desc(p, 1, 0x7f8000000000, 0x2b01, 33554432);
	assert_vec("info_rsp_plain", p, len);

	assert_int_equal(rtrs_info_rsp_decode(v.data, v.len, DEPTH, CHUNK, c),
			 0);
	for (i = 0; i < ARRAY_LEN(want); i++) {
		assert_int_equal(c[want[i].id].addr, want[i].addr);
		assert_int_equal(c[want[i].id].key, want[i].key);
	}
	free(p);
	free(c);
	vec_free(&v);
}

/* The message of the default depth: 512 descriptors, 8200 bytes */
static void info_rsp_full_depth(void **state)
{
	struct rtrs_chunk_ref *c = chunks(DEPTH);
	size_t len;
	u8 *p = info_rsp(DEPTH, &len);
	u32 i;

	(void)state;
	assert_int_equal(len, 8200);
	for (i = 0; i < DEPTH; i++)
		set_desc(p, i, (u64)(DEPTH - i) << 32, i * 3 + 1, CHUNK);
	assert_int_equal(rtrs_info_rsp_decode(p, len, DEPTH, CHUNK, c), 0);
	for (i = 0; i < DEPTH; i++) {
		assert_int_equal(c[i].addr, (u64)(DEPTH - i) << 32);
		assert_int_equal(c[i].key, i * 3 + 1);
	}
	/* a longer buffer is fine, a byte less is not */
	assert_int_equal(rtrs_info_rsp_decode(p, len - 1, DEPTH, CHUNK, c),
			 -EMSGSIZE);
	free(p);
	free(c);
}

static void info_rsp_short(void **state)
{
	struct rtrs_chunk_ref *c = chunks(4);
	struct vec v = vec_load("info_rsp_inval");
	size_t len;

	(void)state;
	for (len = 0; len < v.len; len++) {
		u8 *p = exact_copy(v.data, len);

		assert_case(rtrs_info_rsp_decode(p, len, 4, CHUNK, c),
			    -EMSGSIZE, "%zu bytes", len);
		free(p);
	}
	free(c);
	vec_free(&v);
}

static void info_rsp_longer_than_needed(void **state)
{
	struct rtrs_chunk_ref *c = chunks(4);
	struct vec v = vec_load("info_rsp_inval");
	u8 buf[4096];

	(void)state;
	memset(buf, 0xff, sizeof(buf));
	memcpy(buf, v.data, v.len);
	memset(buf + 4, 0xff, 4);	/* reserved */
	assert_int_equal(rtrs_info_rsp_decode(buf, sizeof(buf), 4, CHUNK, c),
			 0);
	assert_int_equal(c[3].key, 0x10301);
	free(c);
	vec_free(&v);
}

static void info_rsp_type(void **state)
{
	static const u16 t[] = { 0, 2, 3, 4, 0x101, 0xffff };
	struct rtrs_chunk_ref *c = chunks(4);
	struct vec v = vec_load("info_rsp_inval");
	size_t i;

	(void)state;
	for (i = 0; i < ARRAY_LEN(t); i++) {
		put16(v.data, 0, t[i]);
		assert_case(rtrs_info_rsp_decode(v.data, v.len, 4, CHUNK, c),
			    -EPROTO, "type %u", t[i]);
	}
	free(c);
	vec_free(&v);
}

/* n descriptors of the given lengths (in bytes) against depth chunks */
static int spread(u32 depth, u32 chunk_size, unsigned int n, const u32 *lens)
{
	struct rtrs_chunk_ref *c = chunks(depth);
	size_t len;
	u8 *p = info_rsp(n, &len);
	unsigned int k;
	int err;

	for (k = 0; k < n; k++)
		set_desc(p, k, 0x10000000ULL * (k + 1), k, lens[k]);
	err = rtrs_info_rsp_decode(p, len, depth, chunk_size, c);
	free(p);
	free(c);
	return err;
}

static void info_rsp_sg_cnt(void **state)
{
	static const u32 one[] = { 8192, 8192, 8192, 8192, 8192, 8192, 8192,
				   8192, 8192 };
	static const u32 two[] = { 16384, 16384, 16384 };
	static const u32 all[] = { 49152, 49152 };

	(void)state;
	assert_int_equal(spread(6, 8192, 0, one), -EINVAL);
	assert_int_equal(spread(6, 8192, 6, one), 0);
	assert_int_equal(spread(6, 8192, 3, two), 0);
	assert_int_equal(spread(6, 8192, 1, all), 0);
	/* 4 and 5 do not divide 6, 7 and more are too many */
	assert_int_equal(spread(6, 8192, 4,
				(u32[]){ 16384, 16384, 8192, 8192 }), -EINVAL);
	assert_int_equal(spread(6, 8192, 5,
				(u32[]){ 16384, 8192, 8192, 8192, 8192 }),
			 -EINVAL);
	assert_int_equal(spread(6, 8192, 7, one), -EINVAL);
	assert_int_equal(spread(1, 8192, 2, one), -EINVAL);
	assert_int_equal(spread(1, 8192, 1, one), 0);
}

static void info_rsp_lengths(void **state)
{
	(void)state;
	/* unequal pieces are legal as long as they cover the chunks */
	assert_int_equal(spread(4, 8192, 2, (u32[]){ 8192, 24576 }), 0);
	assert_int_equal(spread(4, 8192, 2, (u32[]){ 24576, 8192 }), 0);
	/* not a multiple */
	assert_int_equal(spread(2, 8192, 2, (u32[]){ 8191, 8192 }), -EINVAL);
	assert_int_equal(spread(2, 8192, 2, (u32[]){ 8193, 8192 }), -EINVAL);
	assert_int_equal(spread(2, 8192, 2, (u32[]){ 8192, 8191 }), -EINVAL);
	assert_int_equal(spread(2, 8192, 2, (u32[]){ 8192, 8193 }), -EINVAL);
	assert_int_equal(spread(2, 8192, 2, (u32[]){ 4096, 12288 }), -EINVAL);
	/* nothing */
	assert_int_equal(spread(2, 8192, 2, (u32[]){ 0, 16384 }), -EINVAL);
	assert_int_equal(spread(2, 8192, 2, (u32[]){ 16384, 0 }), -EINVAL);
	/* too many, too few */
	assert_int_equal(spread(2, 8192, 2, (u32[]){ 8192, 16384 }), -EINVAL);
	assert_int_equal(spread(2, 8192, 2, (u32[]){ 16384, 8192 }), -EINVAL);
	assert_int_equal(spread(2, 8192, 1, (u32[]){ 8192 }), -EINVAL);
	assert_int_equal(spread(2, 8192, 1, (u32[]){ 24576 }), -EINVAL);
	assert_int_equal(spread(2, 8192, 1, (u32[]){ 16384 }), 0);
	assert_int_equal(spread(4, 8192, 2, (u32[]){ 8192, 16384 }), -EINVAL);
	/* a sum that is right only modulo 2^32 */
	assert_int_equal(spread(4, 8192, 2,
				(u32[]){ 0xffffe000, 0xa000 }), -EINVAL);
	assert_int_equal(spread(4, 8192, 2,
				(u32[]){ 8192, 0xffffe000 }), -EINVAL);
}

static void info_rsp_addr_wrap(void **state)
{
	static const struct {
		u64 addr;
		int want;
	} t[] = {
		{ 0, 0 },
		{ 1, 0 },
		{ ~0ULL - 2 * 8192, 0 },
		{ ~0ULL - 2 * 8192 + 2, -EINVAL },
		{ ~0ULL - 8192, -EINVAL },
		{ ~0ULL, -EINVAL },
	};
	struct rtrs_chunk_ref *c = chunks(2);
	size_t len, i;
	u8 *p = info_rsp(1, &len);

	(void)state;
	for (i = 0; i < ARRAY_LEN(t); i++) {
		set_desc(p, 0, t[i].addr, 7, 16384);
		assert_case(rtrs_info_rsp_decode(p, len, 2, 8192, c),
			    t[i].want, "address %#llx",
			    (unsigned long long)t[i].addr);
		if (t[i].want)
			continue;
		assert_int_equal(c[0].addr, t[i].addr);
		assert_int_equal(c[1].addr, t[i].addr + 8192);
	}
	free(p);
	free(c);
}

/* The largest message there is: every descriptor one chunk of 8 KiB */
static void info_rsp_largest(void **state)
{
	struct rtrs_chunk_ref *c = chunks(32768);
	size_t len;
	u8 *p = info_rsp(32768, &len);
	u32 i;

	(void)state;
	for (i = 0; i < 32768; i++)
		set_desc(p, i, (u64)i << 20, ~i, 8192);
	assert_int_equal(rtrs_info_rsp_decode(p, len, 32768, 8192, c), 0);
	assert_int_equal(c[32767].addr, 32767ULL << 20);
	assert_int_equal(c[32767].key, ~32767U);
	free(p);
	free(c);
}

static void desc_round_trip(void **state)
{
	static const struct rtrs_desc t[] = {
		{ 0, 0, 0 },
		{ 0x0123456789abcdef, 0xfedcba98, 0x01020304 },
		{ ~0ULL, ~0U, ~0U },
	};
	struct rtrs_wire_desc msg;
	struct rtrs_desc d;
	size_t i;

	(void)state;
	for (i = 0; i < ARRAY_LEN(t); i++) {
		rtrs_desc_encode(&msg, &t[i]);
		assert_int_equal(get32(&msg, 0), t[i].addr & 0xffffffff);
		assert_int_equal(get32(&msg, 4), t[i].addr >> 32);
		assert_int_equal(get32(&msg, 8), t[i].key);
		assert_int_equal(get32(&msg, 12), t[i].len);
		rtrs_desc_decode(&msg, &d);
		assert_int_equal(d.addr, t[i].addr);
		assert_int_equal(d.key, t[i].key);
		assert_int_equal(d.len, t[i].len);
	}
}

/* RKEY_RSP */

static void check_rkey(const char *name, u16 id, u32 rkey)
{
	struct rtrs_wire_rkey_rsp msg;
	struct vec v = vec_load(name);
	u32 got_id = 0, got_key = 0;

	memset(&msg, 0xff, sizeof(msg));
	rtrs_rkey_rsp_encode(&msg, id, rkey);
	assert_vec(name, &msg, sizeof(msg));
	assert_int_equal(rtrs_rkey_rsp_decode(v.data, v.len, DEPTH, &got_id,
					      &got_key), 0);
	assert_int_equal(got_id, id);
	assert_int_equal(got_key, rkey);
	vec_free(&v);
}

static void rkey_rsp_vectors(void **state)
{
	(void)state;
	check_rkey("rkey_rsp_5", 5, 0x00010502);
	check_rkey("rkey_rsp_511", 511, 0xdeadbeef);
}

static void rkey_rsp_bounds(void **state)
{
	static const u16 types[] = { 0, 1, 2, 3, 5, 0x104, 0xffff };
	struct vec v = vec_load("rkey_rsp_511");
	u32 id, key;
	size_t i;

	(void)state;
	for (i = 0; i < v.len; i++) {
		u8 *p = exact_copy(v.data, i);

		assert_case(rtrs_rkey_rsp_decode(p, i, DEPTH, &id, &key),
			    -EMSGSIZE, "%zu bytes", i);
		free(p);
	}
	/* buffer id against the depth */
	assert_int_equal(rtrs_rkey_rsp_decode(v.data, 8, 513, &id, &key), 0);
	assert_int_equal(rtrs_rkey_rsp_decode(v.data, 8, 512, &id, &key), 0);
	assert_int_equal(rtrs_rkey_rsp_decode(v.data, 8, 511, &id, &key),
			 -EINVAL);
	put16(v.data, 2, 0xffff);
	assert_int_equal(rtrs_rkey_rsp_decode(v.data, 8, 512, &id, &key),
			 -EINVAL);
	put16(v.data, 2, 0);
	assert_int_equal(rtrs_rkey_rsp_decode(v.data, 8, 1, &id, &key), 0);
	for (i = 0; i < ARRAY_LEN(types); i++) {
		put16(v.data, 0, types[i]);
		assert_case(rtrs_rkey_rsp_decode(v.data, 8, 512, &id, &key),
			    -EPROTO, "type %u", types[i]);
	}
	vec_free(&v);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(info_req_vector),
		cmocka_unit_test(info_req_short),
		cmocka_unit_test(info_req_type),
		cmocka_unit_test(info_req_reserved_ignored),
		cmocka_unit_test(info_req_name_length),
		cmocka_unit_test(info_req_name_bytes),
		cmocka_unit_test(name_len_sizes),
		cmocka_unit_test(info_req_encode_long_name),
		cmocka_unit_test(info_rsp_vector_inval),
		cmocka_unit_test(info_rsp_vector_plain),
		cmocka_unit_test(info_rsp_full_depth),
		cmocka_unit_test(info_rsp_short),
		cmocka_unit_test(info_rsp_longer_than_needed),
		cmocka_unit_test(info_rsp_type),
		cmocka_unit_test(info_rsp_sg_cnt),
		cmocka_unit_test(info_rsp_lengths),
		cmocka_unit_test(info_rsp_addr_wrap),
		cmocka_unit_test(info_rsp_largest),
		cmocka_unit_test(desc_round_trip),
		cmocka_unit_test(rkey_rsp_vectors),
		cmocka_unit_test(rkey_rsp_bounds),
	};

	return cmocka_run_group_tests_name("rtrs_info", tests, NULL, NULL);
}
