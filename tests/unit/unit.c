// SPDX-License-Identifier: GPL-2.0
/* Helpers of the unit tests, see unit.h */
#include "unit.h"

#define VECTORS_ENV "VECTORS"
#define MAX_VECTOR 65536

static FILE *vec_open(void)
{
	const char *path = getenv(VECTORS_ENV);
	FILE *f;

	if (!path)
		path = "vectors.txt";
	f = fopen(path, "r");
	if (!f)
		fail_msg("cannot open %s (set %s)", path, VECTORS_ENV);
	return f;
}

/* One line of a dump; returns the number of bytes it shows */
static int parse_row(const char *line, unsigned long *off, u8 *row)
{
	char *pos;
	int n = 0;

	*off = strtoul(line, &pos, 16);
	while (n < 16) {
		char *end;
		unsigned long v = strtoul(pos, &end, 16);

		if (end == pos)
			break;
		row[n++] = v;
		pos = end;
	}
	return n;
}

/* Read the dump that follows its heading; returns the length, 0 if malformed */
static size_t parse_dump(FILE *f, u8 *out)
{
	char line[128];
	bool repeat = false;
	u8 row[16] = {}, prev[16] = {};
	size_t at = 0;

	while (fgets(line, sizeof(line), f)) {
		unsigned long off;
		int n;

		if (line[0] == '*') {
			repeat = true;
			continue;
		}
		n = parse_row(line, &off, row);
		if (off > MAX_VECTOR - 16)
			return 0;
		for (; repeat && at < off; at += 16)
			memcpy(out + at, prev, 16);
		if (at != off)
			return 0;
		if (!n)
			return at;
		repeat = false;
		memcpy(out + at, row, n);
		memcpy(prev, row, 16);
		at += n;
	}
	return 0;
}

struct vec vec_load(const char *name)
{
	char head[80], line[128];
	FILE *f = vec_open();
	u8 *bytes = calloc(1, MAX_VECTOR);
	struct vec v = {};

	snprintf(head, sizeof(head), "[%s]\n", name);
	while (fgets(line, sizeof(line), f)) {
		if (strcmp(line, head))
			continue;
		v.len = parse_dump(f, bytes);
		break;
	}
	fclose(f);
	if (v.len)
		v.data = exact_copy(bytes, v.len);
	free(bytes);
	if (!v.len)
		fail_msg("no usable vector [%s]", name);
	return v;
}

void vec_free(struct vec *v)
{
	free(v->data);
	v->data = NULL;
}

void *exact_copy(const void *data, size_t len)
{
	/* A zero-length copy still needs an address of its own. */
	u8 *p = malloc(len ? len : 1);

	if (len)
		memcpy(p, data, len);
	return p;
}

static void print_dump(const char *title, const u8 *p, size_t len)
{
	size_t i;

	print_error("%s, %zu bytes\n", title, len);
	for (i = 0; i < len; i++)
		print_error("%s%02x", i % 16 ? " " : i ? "\n  " : "  ", p[i]);
	print_error("\n");
}

void check_vec(const char *name, const void *data, size_t len,
	       const char *file, int line)
{
	struct vec v = vec_load(name);
	size_t i = 0;

	while (i < len && i < v.len && v.data[i] == ((const u8 *)data)[i])
		i++;
	if (i == len && i == v.len) {
		vec_free(&v);
		return;
	}
	print_error("[%s] differs from byte %zu on\n", name, i);
	print_dump("  vector", v.data, v.len);
	print_dump("  got", data, len);
	vec_free(&v);
	_fail(file, line);
}

void put16(void *p, size_t off, u16 v)
{
	u8 *b = (u8 *)p + off;

	b[0] = v & 0xff;
	b[1] = v >> 8;
}

void put32(void *p, size_t off, u32 v)
{
	put16(p, off, v & 0xffff);
	put16(p, off + 2, v >> 16);
}

void put64(void *p, size_t off, u64 v)
{
	put32(p, off, v & 0xffffffff);
	put32(p, off + 4, v >> 32);
}

u32 get32(const void *p, size_t off)
{
	const u8 *b = (const u8 *)p + off;

	return b[0] | b[1] << 8 | b[2] << 16 | (u32)b[3] << 24;
}
