/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What every fuzz target needs.  A target is one file, fuzz_NAME.c: it takes
 * its parameters (queue depth, sizes) from the front of the input, hands the
 * rest to one decoder as received bytes, and asserts what must hold about the
 * result.  libFuzzer allocates inputs exactly, so that AddressSanitizer sees a
 * decoder that reads past what was received.
 */
#ifndef TESTS_FUZZ_H
#define TESTS_FUZZ_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "rnbd/wire.h"
#include "rtrs/wire.h"

int LLVMFuzzerTestOneInput(const u8 *data, size_t size);

/* A property of the decoder; a violation is a finding */
#define REQUIRE(cond) do {						\
	if (!(cond)) {							\
		fprintf(stderr, "%s:%d: does not hold: %s\n", __FILE__,	\
			__LINE__, #cond);				\
		abort();						\
	}								\
} while (0)

/* Numbers from bytes, by other means than the code under test */
static inline u32 le(const u8 *p, unsigned int bytes)
{
	u32 v = 0;

	while (bytes--)
		v = v << 8 | p[bytes];
	return v;
}

/* Take a number from the front of the input; 0 when there is none left */
static inline u32 take(const u8 **data, size_t *size, unsigned int bytes)
{
	u32 v;

	if (*size < bytes) {
		*data += *size;
		*size = 0;
		return 0;
	}
	v = le(*data, bytes);
	*data += bytes;
	*size -= bytes;
	return v;
}

#endif
