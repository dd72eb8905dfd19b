// SPDX-License-Identifier: GPL-2.0
/*
 * IO: vectors, and every operation against direction and data it came with.
 * Known bugs: B01, B02, B10, B15, B17, B18, B22.
 */
#include "unit.h"

static const struct {
	const char *name;
	struct rnbd_io io;	/* what stands on the wire */
	u32 flags;		/* what a decoder leaves of the flags */
	u32 data_len;
} vectors[] = {
	{ "io_read", { 0, 2048, RNBD_OP_READ, 0x100, 4096, 0 }, 0x100, 4096 },
	{ "io_write", { 0, 2048, RNBD_OP_WRITE, 0, 4096, 0 }, 0, 4096 },
	{ "io_write_sync", { 0, 1, RNBD_OP_WRITE, 0x100, 512, 0x4004 }, 0x100,
	  512 },
	{ "io_write_fua", { 0, 0x123456789a, RNBD_OP_WRITE, 0x300, 8192, 0 },
	  0x300, 8192 },
	{ "io_flush", { 0, ~0ULL, RNBD_OP_FLUSH, 0x300, 0, 0 }, 0x100, 0 },
	{ "io_flush_preflush", { 0, ~0ULL, RNBD_OP_FLUSH, 0x700, 0, 0 }, 0x100,
	  0 },
	{ "io_discard", { 0, 4096, RNBD_OP_DISCARD, 0, 1048576, 0 }, 0, 0 },
	{ "io_secure_erase", { 0, 8192, RNBD_OP_SECURE_ERASE, 0, 65536, 0 }, 0,
	  0 },
	{ "io_write_zeroes", { 0, 0, RNBD_OP_WRITE_ZEROES, 0, 16777216, 0 }, 0,
	  0 },
	{ "io_write_zeroes_nounmap", { 0, 0, RNBD_OP_WRITE_ZEROES, 0x800,
	  16777216, 0 }, 0x800, 0 },
};

static void io_vectors(void **state)
{
	struct rnbd_wire_io msg;
	struct rnbd_io got;
	size_t i;

	(void)state;
	for (i = 0; i < ARRAY_LEN(vectors); i++) {
		const struct rnbd_io *io = &vectors[i].io;
		struct vec v = vec_load(vectors[i].name);

		memset(&msg, 0xff, sizeof(msg));
		rnbd_io_encode(&msg, io);
		assert_vec(vectors[i].name, &msg, sizeof(msg));

		assert_case(rnbd_io_decode(v.data, v.len, rnbd_io_dir(io->op),
					   vectors[i].data_len, &got), 0, "%s",
			    vectors[i].name);
		assert_int_equal(got.device_id, 0);
		assert_int_equal(got.op, io->op);
		assert_case(got.flags, vectors[i].flags, "flags of %s",
			    vectors[i].name);
		assert_int_equal(got.size, io->size);
		assert_int_equal(got.prio, io->prio);
		assert_int_equal(got.sector, io->op == RNBD_OP_FLUSH ?
				 0 : io->sector);
		vec_free(&v);
	}
}

/* WRITE_SAME of old clients brings data along; op 5 with data is refused */
static void io_write_same_refused(void **state)
{
	struct vec v = vec_load("io_write_same");
	struct rnbd_io got;

	(void)state;
	assert_int_equal(rnbd_io_decode(v.data, v.len, RTRS_DIR_WRITE, 512,
					&got), -EINVAL);
	/* one block over one block: the lengths agree, it is still no zeroing */
	put32(v.data, 20, 512);
	assert_int_equal(rnbd_io_decode(v.data, v.len, RTRS_DIR_WRITE, 512,
					&got), -EINVAL);
	vec_free(&v);
}

/* Directions as the spec's table gives them */
static const struct {
	enum rnbd_op op;
	enum rtrs_dir dir;
	bool data;
} ops[] = {
	{ RNBD_OP_READ, RTRS_DIR_READ, true },
	{ RNBD_OP_WRITE, RTRS_DIR_WRITE, true },
	{ RNBD_OP_FLUSH, RTRS_DIR_READ, false },
	{ RNBD_OP_DISCARD, RTRS_DIR_WRITE, false },
	{ RNBD_OP_SECURE_ERASE, RTRS_DIR_WRITE, false },
	{ RNBD_OP_WRITE_ZEROES, RTRS_DIR_WRITE, false },
};

static void io_numbers(void **state)
{
	size_t i;

	(void)state;
	for (i = 0; i < ARRAY_LEN(ops); i++) {
		assert_int_equal(ops[i].op, i);
		assert_int_equal(rnbd_io_dir(ops[i].op), ops[i].dir);
		assert_int_equal(rnbd_op_has_data(ops[i].op), ops[i].data);
	}
}

static void put_io(u8 *p, u32 rw, u32 size)
{
	put32(p, 16, rw);
	put32(p, 20, size);
}

/* All operations x both directions x interesting sizes x data lengths */
static void io_matrix(void **state)
{
	static const u32 sizes[] = { 0, 1, 511, 512, 513, 1024, 4096, 126976,
				     0xfffffe00, 0xffffffff };
	struct vec v = vec_load("io_read");
	struct rnbd_io got;
	size_t o, s, d;
	int dir;

	(void)state;
	for (o = 0; o < ARRAY_LEN(ops); o++)
	for (dir = 0; dir < 2; dir++)
	for (s = 0; s < ARRAY_LEN(sizes); s++)
	for (d = 0; d < ARRAY_LEN(sizes); d++) {
		u32 size = sizes[s], data = sizes[d];
		bool ok = dir == (int)ops[o].dir;

		if (ops[o].data)
			ok = ok && data == size && size && size % 512 == 0;
		else if (ops[o].op == RNBD_OP_FLUSH)
			ok = ok && !data;
		else
			ok = ok && !data && size && size % 512 == 0;
		put_io(v.data, ops[o].op, size);
		assert_case(rnbd_io_decode(v.data, v.len, dir, data, &got),
			    ok ? 0 : -EINVAL, "op %zu dir %d size %u data %u",
			    o, dir, size, data);
		if (!ok)
			continue;
		assert_int_equal(got.op, o);
		assert_int_equal(got.size, ops[o].op == RNBD_OP_FLUSH ?
				 0 : size);
	}
	vec_free(&v);
}

static void io_unknown_op(void **state)
{
	struct vec v = vec_load("io_read");
	struct rnbd_io got;
	u32 op;
	int dir;

	(void)state;
	for (op = 6; op < 256; op++) {
		for (dir = 0; dir < 2; dir++) {
			put_io(v.data, op, 512);
			assert_case(rnbd_io_decode(v.data, v.len, dir, 512,
						   &got), -EOPNOTSUPP,
				    "op %u dir %d with data", op, dir);
			assert_case(rnbd_io_decode(v.data, v.len, dir, 0,
						   &got), -EOPNOTSUPP,
				    "op %u dir %d without data", op, dir);
		}
	}
	vec_free(&v);
}

/* Only flags that mean something for the operation get through */
static void io_flags(void **state)
{
	static const u32 allowed[] = { 0x100, 0x700, 0x100, 0x100, 0x100,
				       0x900 };
	struct vec v = vec_load("io_read");
	struct rnbd_io got;
	size_t o;
	int bit;

	(void)state;
	for (o = 0; o < ARRAY_LEN(ops); o++) {
		u32 data = ops[o].data ? 512 : 0;

		for (bit = 8; bit < 32; bit++) {
			u32 flag = 1U << bit;

			put_io(v.data, o | flag, 512);
			assert_case(rnbd_io_decode(v.data, v.len, ops[o].dir,
						   data, &got), 0,
				    "op %zu flag %#x", o, flag);
			assert_case(got.flags, flag & allowed[o],
				    "op %zu flag %#x", o, flag);
			assert_int_equal(got.op, o);
		}
		put_io(v.data, o | 0xffffff00, 512);
		assert_int_equal(rnbd_io_decode(v.data, v.len, ops[o].dir,
						data, &got), 0);
		assert_case(got.flags, allowed[o], "op %zu all flags", o);
	}
	vec_free(&v);
}

/* The values that real clients put into rw, with and without SYNC */
static void io_words_seen_on_the_wire(void **state)
{
	static const struct {
		u32 rw, data, flags;
	} t[] = {
		{ 0x100, 512, 0x100 }, { 0x001, 512, 0 },
		{ 0x101, 512, 0x100 }, { 0x301, 512, 0x300 },
		{ 0x302, 0, 0x100 },   { 0x702, 0, 0x100 },
		{ 0x002, 0, 0 },       { 0x003, 0, 0 },
		{ 0x103, 0, 0x100 },   { 0x004, 0, 0 },
		{ 0x005, 0, 0 },       { 0x105, 0, 0x100 },
		{ 0x805, 0, 0x800 },   { 0x905, 0, 0x900 },
	};
	struct vec v = vec_load("io_read");
	struct rnbd_io got;
	size_t i;

	(void)state;
	for (i = 0; i < ARRAY_LEN(t); i++) {
		put_io(v.data, t[i].rw, 512);
		assert_case(rnbd_io_decode(v.data, v.len,
					   ops[t[i].rw & 0xff].dir, t[i].data,
					   &got), 0, "rw %#x", t[i].rw);
		assert_case(got.flags, t[i].flags, "rw %#x", t[i].rw);
	}
	vec_free(&v);
}

static void io_length(void **state)
{
	struct vec v = vec_load("io_write_sync");
	struct rnbd_io got;
	size_t len;
	u8 big[64];

	(void)state;
	for (len = 0; len <= 32; len++) {
		u8 *p = exact_copy(v.data, len);

		memset(&got, 0xff, sizeof(got));
		assert_case(rnbd_io_decode(p, len, RTRS_DIR_WRITE, 512, &got),
			    len < 24 ? -EINVAL : 0, "%zu bytes", len);
		if (len >= 24) {
			assert_int_equal(got.sector, 1);
			assert_int_equal(got.size, 512);
		}
		/* half a priority is none */
		if (len >= 24 && len < 26)
			assert_int_equal(got.prio, 0);
		if (len == 32)
			assert_int_equal(got.prio, 0x4004);
		free(p);
	}
	memset(big, 0xff, sizeof(big));
	memcpy(big, v.data, v.len);
	assert_int_equal(rnbd_io_decode(big, sizeof(big), RTRS_DIR_WRITE, 512,
					&got), 0);
	assert_int_equal(got.prio, 0x4004);
	vec_free(&v);
}

static void io_type(void **state)
{
	static const u16 types[] = { 0, 1, 2, 3, 5, 0x104, 0xffff };
	struct vec v = vec_load("io_read");
	struct rnbd_io got;
	size_t i;

	(void)state;
	for (i = 0; i < ARRAY_LEN(types); i++) {
		put16(v.data, 0, types[i]);
		assert_case(rnbd_io_decode(v.data, v.len, RTRS_DIR_READ, 4096,
					   &got), -EINVAL, "type %u",
			    types[i]);
	}
	vec_free(&v);
}

/* Every field full width, garbage in all padding */
static void io_fields(void **state)
{
	struct rnbd_io io = {
		.device_id = 0xfedcba98,
		.sector = 0x0123456789abcdef,
		.op = RNBD_OP_WRITE,
		.flags = 0x700,
		.size = 0xfffffe00,
		.prio = 0xfedc,
	}, got;
	struct rnbd_wire_io msg;

	(void)state;
	rnbd_io_encode(&msg, &io);
	assert_int_equal(get32(&msg, 0), 4);
	assert_int_equal(get32(&msg, 4), 0xfedcba98);
	assert_int_equal(get32(&msg, 8), 0x89abcdef);
	assert_int_equal(get32(&msg, 12), 0x01234567);
	assert_int_equal(get32(&msg, 16), 0x701);
	assert_int_equal(get32(&msg, 20), 0xfffffe00);
	assert_int_equal(get32(&msg, 24), 0xfedc);
	assert_int_equal(get32(&msg, 28), 0);
	put16(&msg, 2, 0xffff);
	memset((u8 *)&msg + 26, 0xff, 6);
	assert_int_equal(rnbd_io_decode(&msg, sizeof(msg), RTRS_DIR_WRITE,
					0xfffffe00, &got), 0);
	assert_int_equal(got.device_id, io.device_id);
	assert_int_equal(got.sector, io.sector);
	assert_int_equal(got.op, io.op);
	assert_int_equal(got.flags, io.flags);
	assert_int_equal(got.size, io.size);
	assert_int_equal(got.prio, io.prio);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(io_vectors),
		cmocka_unit_test(io_write_same_refused),
		cmocka_unit_test(io_numbers),
		cmocka_unit_test(io_matrix),
		cmocka_unit_test(io_unknown_op),
		cmocka_unit_test(io_flags),
		cmocka_unit_test(io_words_seen_on_the_wire),
		cmocka_unit_test(io_length),
		cmocka_unit_test(io_type),
		cmocka_unit_test(io_fields),
	};

	return cmocka_run_group_tests_name("rnbd_io", tests, NULL, NULL);
}
