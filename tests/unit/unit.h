/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What every unit test program needs: cmocka, the wire headers under test, the
 * test vectors and memory whose last byte is the last one that may be touched.
 */
#ifndef TESTS_UNIT_H
#define TESTS_UNIT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "rnbd/wire.h"
#include "rtrs/wire.h"

#define ARRAY_LEN(a) (sizeof(a) / sizeof((a)[0]))

/* The constants the vectors are built from */
#define DEPTH	512
#define CHUNK	131072
#define IO_SIZE	126976
#define HDR_SIZE 4096

/**
 * struct vec - a test vector
 * @data:	its bytes, allocated exactly
 * @len:	how many
 */
struct vec {
	u8 *data;
	size_t len;
};

/* The vector of that name from vectors.txt; fails the test if there is none */
struct vec vec_load(const char *name);
void vec_free(struct vec *v);

/* Compare bytes with a vector; on a difference print both and fail */
#define assert_vec(name, data, len) \
	check_vec(name, data, len, __FILE__, __LINE__)
void check_vec(const char *name, const void *data, size_t len,
	       const char *file, int line);

/* An exact-size copy on the heap: the sanitizer sees a byte too much */
void *exact_copy(const void *data, size_t len);

/* Little-endian pokes and peeks that share no code with what is tested */
void put16(void *p, size_t off, u16 v);
void put32(void *p, size_t off, u32 v);
void put64(void *p, size_t off, u64 v);
u32 get32(const void *p, size_t off);

/* assert_int_equal() that names the case of a table */
#define assert_case(got, want, ...) do {				\
	long long got_ = (got), want_ = (want);				\
	if (got_ != want_) {						\
		char what_[256];					\
		snprintf(what_, sizeof(what_), __VA_ARGS__);		\
		fail_msg("%s: got %lld, want %lld", what_, got_, want_); \
	}								\
} while (0)

#endif
