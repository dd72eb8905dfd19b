// SPDX-License-Identifier: GPL-2.0
/*
 * Complete requests: what one RDMA write puts into a chunk, where it lands,
 * the immediate it carries, and the server's reading of the whole.
 */
#include "unit.h"

struct request {
	const char *vector;
	u32 id;			/* chunk */
	const void *usr;
	u32 usr_len;
	enum rtrs_dir dir;
	u32 data_len;
	int fill;		/* byte of a WRITE's data */
	struct rtrs_desc desc;	/* of a READ with data */
	/* what the vectors say */
	u32 target, len, off, imm;
	u32 rsp_ok;
	struct {
		int error;
		u32 imm;
	} rsp_err[2];
};

/* The client: image of the write, gathered as the spec orders it */
static u32 build(const struct request *r, u8 *img)
{
	u32 n = 0;

	if (r->dir == RTRS_DIR_WRITE) {
		memset(img, r->fill, r->data_len);
		n = r->data_len;
	}
	memcpy(img + n, r->usr, r->usr_len);
	n += r->usr_len;
	if (r->dir == RTRS_DIR_WRITE)
		n += rtrs_write_hdr_encode(img + n, r->usr_len);
	else
		n += rtrs_read_hdr_encode(img + n, r->usr_len, true,
					  r->data_len ? &r->desc : NULL);
	return n;
}

/* The server: from the immediate to the parts */
static void take_apart(const struct request *r, const u8 *chunk)
{
	u32 id, off, left;
	struct rtrs_io_hdr io;

	assert_int_equal(rtrs_imm_type(r->imm), RTRS_IMM_IO_REQ);
	assert_int_equal(rtrs_io_req_imm_decode(r->imm, DEPTH, CHUNK, &id,
						&off), 0);
	assert_int_equal(id, r->id);
	assert_int_equal(off, r->off);
	left = CHUNK - off;
	if (left > RTRS_MAX_IO_HDR)
		left = RTRS_MAX_IO_HDR;
	assert_int_equal(rtrs_io_hdr_decode(chunk + off, left, off, IO_SIZE,
					    HDR_SIZE, &io), 0);
	assert_int_equal(io.dir, r->dir);
	assert_int_equal(io.usr_len, r->usr_len);
	assert_int_equal(io.data_len, r->data_len);
	assert_memory_equal(chunk + io.data_len, r->usr, r->usr_len);
	assert_int_equal(io.has_desc, r->dir == RTRS_DIR_READ && r->data_len);
	assert_int_equal(io.need_inval, io.has_desc);
	if (!io.has_desc)
		return;
	assert_int_equal(io.desc.addr, r->desc.addr);
	assert_int_equal(io.desc.key, r->desc.key);
	assert_int_equal(io.desc.len, r->desc.len);
}

static void check_response(const struct request *r, u32 imm, int want)
{
	bool inv = r->dir == RTRS_DIR_READ && r->data_len;
	int error;
	u32 id;

	assert_int_equal(rtrs_io_rsp_imm(r->id, want, inv), imm);
	assert_int_equal(rtrs_imm_type(imm), inv ? 2 : 1);
	assert_int_equal(rtrs_io_rsp_imm_decode(imm, DEPTH, &id, &error), 0);
	assert_int_equal(id, r->id);
	assert_int_equal(error, want);
}

static void check_request(const struct request *r)
{
	u8 *chunk = malloc(CHUNK), *img = malloc(CHUNK);
	size_t i;
	u32 n;

	assert_int_equal(rtrs_request_fits(r->dir, r->usr_len, r->data_len,
					   IO_SIZE, HDR_SIZE), 0);
	memset(chunk, 0xa5, CHUNK);
	n = build(r, img);
	assert_int_equal(n, r->len);
	assert_vec(r->vector, img, n);
	assert_int_equal(r->dir == RTRS_DIR_READ ? r->data_len : 0, r->target);
	assert_int_equal(r->data_len + r->usr_len, r->off);
	assert_int_equal(rtrs_io_req_imm(DEPTH, r->id, r->off), r->imm);
	assert_true(r->target + n <= CHUNK);
	memcpy(chunk + r->target, img, n);
	take_apart(r, chunk);

	check_response(r, r->rsp_ok, 0);
	for (i = 0; i < ARRAY_LEN(r->rsp_err); i++)
		if (r->rsp_err[i].error)
			check_response(r, r->rsp_err[i].imm,
				       r->rsp_err[i].error);
	free(chunk);
	free(img);
}

static void request_sess_info(void **state)
{
	struct rnbd_wire_sess_info msg;
	struct request r = {
		.vector = "req_sess_info", .id = 0, .dir = RTRS_DIR_READ,
		.usr = &msg, .usr_len = sizeof(msg),
		.data_len = sizeof(struct rnbd_wire_sess_info),
		.desc = { 0x200000000, 0x5501, 36 },
		.target = 36, .len = 60, .off = 72, .imm = 0x00000048,
		.rsp_ok = 0x20000000,
	};

	(void)state;
	rnbd_sess_info_encode(&msg, RNBD_MSG_SESS_INFO, 2);
	check_request(&r);
}

static void request_open(void **state)
{
	struct rnbd_wire_open msg;
	char name[RNBD_NAME_LEN] = "/dev/ram0";
	struct request r = {
		.vector = "req_open", .id = 1, .dir = RTRS_DIR_READ,
		.usr = &msg, .usr_len = sizeof(msg),
		.data_len = sizeof(struct rnbd_wire_open_rsp),
		.desc = { 0x200001000, 0x5602, 56 },
		.target = 56, .len = 288, .off = 320, .imm = 0x00080140,
		.rsp_ok = 0x20000001,
		.rsp_err = { { -ENOENT, 0x20100001 }, { -EPERM, 0x20080001 } },
	};

	(void)state;
	rnbd_open_encode(&msg, RNBD_ACCESS_RW, name);
	check_request(&r);
}

static void request_read(void **state)
{
	struct rnbd_io io = {
		.sector = 2048, .op = RNBD_OP_READ, .flags = RNBD_F_SYNC,
		.size = 4096,
	};
	struct rnbd_wire_io msg;
	struct request r = {
		.vector = "req_read", .id = 5, .dir = rnbd_io_dir(io.op),
		.usr = &msg, .usr_len = sizeof(msg), .data_len = 4096,
		.desc = { 0x300000000, 0xa03, 4096 },
		.target = 4096, .len = 56, .off = 4128, .imm = 0x00281020,
		.rsp_ok = 0x20000005,
		.rsp_err = { { -EIO, 0x20280005 }, { -ENOTCONN, 0x23580005 } },
	};

	(void)state;
	rnbd_io_encode(&msg, &io);
	check_request(&r);
}

static void request_write(void **state)
{
	struct rnbd_io io = {
		.sector = 1, .op = RNBD_OP_WRITE, .flags = RNBD_F_SYNC,
		.size = 512, .prio = 0x4004,
	};
	struct rnbd_wire_io msg;
	struct request r = {
		.vector = "req_write", .id = 6, .dir = rnbd_io_dir(io.op),
		.usr = &msg, .usr_len = sizeof(msg), .data_len = 512,
		.fill = 0x5a,
		.target = 0, .len = 548, .off = 544, .imm = 0x00300220,
		.rsp_ok = 0x10000006,
		.rsp_err = { { -ENOSPC, 0x10E00006 } },
	};

	(void)state;
	rnbd_io_encode(&msg, &io);
	check_request(&r);
}

static void request_flush(void **state)
{
	struct rnbd_io io = {
		.sector = ~0ULL, .op = RNBD_OP_FLUSH,
		.flags = RNBD_F_SYNC | RNBD_F_FUA | RNBD_F_PREFLUSH,
	};
	struct rnbd_wire_io msg;
	struct request r = {
		.vector = "req_flush", .id = 7, .dir = rnbd_io_dir(io.op),
		.usr = &msg, .usr_len = sizeof(msg),
		.target = 0, .len = 40, .off = 32, .imm = 0x00380020,
		.rsp_ok = 0x10000007,
	};

	(void)state;
	rnbd_io_encode(&msg, &io);
	check_request(&r);
}

static void request_discard(void **state)
{
	struct rnbd_io io = {
		.sector = 4096, .op = RNBD_OP_DISCARD, .size = 1048576,
	};
	struct rnbd_wire_io msg;
	struct request r = {
		.vector = "req_discard", .id = 8, .dir = rnbd_io_dir(io.op),
		.usr = &msg, .usr_len = sizeof(msg),
		.target = 0, .len = 36, .off = 32, .imm = 0x00400020,
		.rsp_ok = 0x10000008,
		.rsp_err = { { -EOPNOTSUPP, 0x12F80008 } },
	};

	(void)state;
	rnbd_io_encode(&msg, &io);
	check_request(&r);
}

static void request_close(void **state)
{
	struct rnbd_wire_close msg;
	struct request r = {
		.vector = "req_close", .id = 9, .dir = RTRS_DIR_WRITE,
		.usr = &msg, .usr_len = sizeof(msg),
		.target = 0, .len = 12, .off = 8, .imm = 0x00480008,
		.rsp_ok = 0x10000009,
	};

	(void)state;
	rnbd_close_encode(&msg, 7);
	check_request(&r);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(request_sess_info),
		cmocka_unit_test(request_open),
		cmocka_unit_test(request_read),
		cmocka_unit_test(request_write),
		cmocka_unit_test(request_flush),
		cmocka_unit_test(request_discard),
		cmocka_unit_test(request_close),
	};

	return cmocka_run_group_tests_name("requests", tests, NULL, NULL);
}
