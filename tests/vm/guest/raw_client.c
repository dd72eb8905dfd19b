// SPDX-License-Identifier: GPL-2.0
/*
 * raw_client ADDRESS PORT NAME FIFO
 *
 * A client of an RTRS server that keeps to the rules of the transport, in a session
 * NAME of three connections, and sends what it is told to, one line a request:
 *
 *	TAG CID read|write DATA_LEN MESSAGE [OPTION=VALUE]... [async]
 *
 * MESSAGE are the bytes of the user message in hex, "-" for none.  Options:
 *
 *	fill=BYTE	what the data of a WRITE consists of, 0xd7 if not given
 *	usr=LEN		length of the message according to the header
 *	desc=LEN	room for the answer of a READ according to its descriptor
 *	then=MESSAGE	another message of that length, which is written over the first one
 *			and back, again and again, while the server looks at it
 *
 * The next line waits for the answer, unless a request is "async"; "settle" waits for
 * all answers, "quit" ends the session.  An answer is printed as
 *
 *	TAG ERRNO [FIRST BYTES OF DATA]
 *
 * or "TAG silent" if there is none, "TAG overrun" if more than the data was written.
 * "ready DEPTH MAX_IO_SIZE CHUNK_SIZE" comes first, "closed" when the server closes.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>
#include <rdma/rdma_cma.h>

#include "rtrs/wire.h"

#define NR_CONNS	3
#define NR_RECV		64
#define NR_SLOTS	16
#define SLOT_SIZE	(192 * 1024)	/* for a request, and as much for its answer */
#define SILENCE		40		/* seconds until an answer is given up */
#define CANARY		0xee
#define CANARIES	4096
#define SHOWN		64		/* bytes of an answer */
#define MSG_SIZE	1024		/* bytes of a message at most */
#define REWRITES	8
#define RKEY_RSP_SIZE	sizeof(struct rtrs_wire_rkey_rsp)

/* A request on its way; its number is the buffer id. */
struct slot {
	char	tag[64];
	bool	busy;
	bool	async;
	u32	len;	/* of the answer */
};

static struct rdma_event_channel *channel;
static struct ibv_comp_channel *completions;
static struct ibv_cq *cq;
static struct ibv_mr *mr;
static struct rdma_cm_id *conns[NR_CONNS];
static struct sockaddr_in server = { .sin_family = AF_INET };
static struct rtrs_conn_rsp session;
static struct rtrs_chunk_ref *chunks;
static struct slot slots[NR_SLOTS];
static u8 (*recvs)[RKEY_RSP_SIZE];
static u8 *arena;

static void die(const char *what)
{
	perror(what);
	exit(1);
}

static void leave(const char *last_word)
{
	printf("%s\n", last_word);
	exit(0);
}

/*
 * Connecting
 */

static struct rdma_cm_event *expect(enum rdma_cm_event_type wanted)
{
	struct rdma_cm_event *event;

	if (rdma_get_cm_event(channel, &event))
		die("rdma_get_cm_event");
	if (event->event != wanted) {
		printf("refused: %s\n", rdma_event_str(event->event));
		exit(3);
	}
	return event;
}

/* What all connections share, once the device is known */
static void set_up_device(struct rdma_cm_id *id)
{
	size_t receives = NR_CONNS * NR_RECV * RKEY_RSP_SIZE;
	size_t size = 2UL * NR_SLOTS * SLOT_SIZE;

	completions = ibv_create_comp_channel(id->verbs);
	if (!completions)
		die("ibv_create_comp_channel");
	cq = ibv_create_cq(id->verbs, 2 * NR_CONNS * NR_RECV, NULL, completions, 0);
	if (!cq || ibv_req_notify_cq(cq, 0))
		die("ibv_create_cq");
	arena = calloc(1, size + receives);
	if (!arena)
		die("calloc");
	recvs = (void *)(arena + size);
	mr = ibv_reg_mr(id->pd, arena, size + receives,
			IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
	if (!mr)
		die("ibv_reg_mr");
}

static void resolve(struct rdma_cm_id *id)
{
	if (rdma_resolve_addr(id, NULL, (struct sockaddr *)&server, 5000))
		die("rdma_resolve_addr");
	rdma_ack_cm_event(expect(RDMA_CM_EVENT_ADDR_RESOLVED));
	if (rdma_resolve_route(id, 5000))
		die("rdma_resolve_route");
	rdma_ack_cm_event(expect(RDMA_CM_EVENT_ROUTE_RESOLVED));
}

static void connect_cid(struct rtrs_conn_req *req, int cid)
{
	struct ibv_qp_init_attr attr = {
		.qp_type = IBV_QPT_RC,
		.cap = { NR_RECV, NR_RECV, 1, 1, 0 },
	};
	struct rtrs_wire_conn_req msg;
	struct rdma_conn_param param = {
		.private_data = &msg,
		.private_data_len = sizeof(msg),
		.retry_count = 7,
		.rnr_retry_count = 7,
	};
	struct rdma_cm_event *event;
	struct rdma_cm_id *id;

	req->cid = cid;
	rtrs_conn_req_encode(&msg, req);
	if (rdma_create_id(channel, &id, NULL, RDMA_PS_TCP))
		die("rdma_create_id");
	resolve(id);
	if (!cq)
		set_up_device(id);
	attr.send_cq = cq;
	attr.recv_cq = cq;
	if (rdma_create_qp(id, NULL, &attr))
		die("rdma_create_qp");
	if (rdma_connect(id, &param))
		die("rdma_connect");
	event = expect(RDMA_CM_EVENT_ESTABLISHED);
	if (!cid && rtrs_conn_rsp_decode(event->param.conn.private_data,
					 event->param.conn.private_data_len, true, &session))
		die("CONN_RSP");
	rdma_ack_cm_event(event);
	conns[cid] = id;
}

static void connect_all(void)
{
	struct rtrs_conn_req req = {
		.cid_num = NR_CONNS,
		.recon_cnt = 1,
		.first_conn = true,
	};
	int cid;

	if (getrandom(req.path_uuid, RTRS_UUID_LEN, 0) != RTRS_UUID_LEN ||
	    getrandom(req.session_uuid, RTRS_UUID_LEN, 0) != RTRS_UUID_LEN)
		die("getrandom");
	for (cid = 0; cid < NR_CONNS; cid++)
		connect_cid(&req, cid);
	fcntl(channel->fd, F_SETFL, O_NONBLOCK);
}

/*
 * Queues
 */

static void post_send(int cid, struct ibv_send_wr *wr)
{
	struct ibv_send_wr *bad;

	wr->send_flags = IBV_SEND_SIGNALED;
	if (ibv_post_send(conns[cid]->qp, wr, &bad))
		die("ibv_post_send");
}

static void post_recv_at(int cid, u64 id, void *buf, u32 len)
{
	struct ibv_sge sge = { (uintptr_t)buf, len, mr->lkey };
	struct ibv_recv_wr wr = { .wr_id = id, .sg_list = &sge, .num_sge = 1 }, *bad;

	if (ibv_post_recv(conns[cid]->qp, &wr, &bad))
		die("ibv_post_recv");
}

/* A receive's number tells its connection, too. */
static void post_recv(u64 number)
{
	post_recv_at(number / NR_RECV, number, recvs[number], RKEY_RSP_SIZE);
}

static void answer_heartbeat(void)
{
	struct ibv_send_wr ack = {
		.opcode = IBV_WR_RDMA_WRITE_WITH_IMM,
		.imm_data = htonl(rtrs_imm(RTRS_IMM_HB_ACK, 0)),
	};

	post_send(0, &ack);
}

static u8 *answer_of(u32 id)
{
	return arena + (2UL * id + 1) * SLOT_SIZE;
}

static bool overrun(u32 id)
{
	const u8 *end = answer_of(id) + slots[id].len;
	int i;

	for (i = 0; i < CANARIES; i++)
		if (end[i] != CANARY)
			return true;
	return false;
}

static void handle_response(u32 imm)
{
	struct slot *slot;
	u32 id, i;
	int error;

	if (rtrs_io_rsp_imm_decode(imm, session.queue_depth, &id, &error) ||
	    id >= NR_SLOTS || !slots[id].busy) {
		printf("stray %#x\n", imm);
		return;
	}
	slot = &slots[id];
	slot->busy = false;
	printf("%s %d", slot->tag, -error);
	if (overrun(id))
		printf(" overrun");
	for (i = 0; !error && i < slot->len && i < SHOWN; i++)
		printf(i ? "%02x" : " %02x", answer_of(id)[i]);
	printf("\n");
}

static void handle_imm(u32 imm)
{
	switch (rtrs_imm_type(imm)) {
	case RTRS_IMM_HB_MSG:
		answer_heartbeat();
		break;
	case RTRS_IMM_HB_ACK:
		break;
	case RTRS_IMM_IO_RSP:
		handle_response(imm);
		break;
	default:
		printf("stray %#x\n", imm);
	}
}

static void handle_recv(const struct ibv_wc *wc)
{
	u32 id, key;

	/* With a message there is a new key in it. */
	if (wc->opcode == IBV_WC_RECV &&
	    !rtrs_rkey_rsp_decode(recvs[wc->wr_id], wc->byte_len, session.queue_depth,
				  &id, &key))
		chunks[id].key = key;
	post_recv(wc->wr_id);
	if (wc->wc_flags & IBV_WC_WITH_IMM)
		handle_imm(ntohl(wc->imm_data));
}

static void handle_cm(void)
{
	struct rdma_cm_event *event;

	if (rdma_get_cm_event(channel, &event))
		return;
	if (event->event == RDMA_CM_EVENT_DISCONNECTED)
		leave("closed");
	rdma_ack_cm_event(event);
}

/* Waits; the next completion will wake us again. */
static void wait_completion(void)
{
	struct ibv_cq *which;
	void *context;

	if (ibv_get_cq_event(completions, &which, &context))
		die("ibv_get_cq_event");
	ibv_ack_cq_events(cq, 1);
	if (ibv_req_notify_cq(cq, 0))
		die("ibv_req_notify_cq");
}

/* Wait for events, not longer than some milliseconds; true if there is input. */
static bool pump(int input, int timeout)
{
	struct pollfd fds[] = {
		{ completions->fd, POLLIN, 0 }, { channel->fd, POLLIN, 0 }, { input, POLLIN, 0 },
	};
	struct ibv_wc wc;

	if (poll(fds, 3, timeout) < 0)
		die("poll");
	if (fds[0].revents)
		wait_completion();
	while (ibv_poll_cq(cq, 1, &wc) > 0) {
		if (wc.status != IBV_WC_SUCCESS)
			leave("closed");
		if (wc.opcode & IBV_WC_RECV)
			handle_recv(&wc);
	}
	if (fds[1].revents)
		handle_cm();
	return fds[2].revents & POLLIN;
}

/*
 * INFO
 */

static void exchange_info(const char *name)
{
	size_t size = rtrs_info_rsp_size(session.queue_depth);
	struct rtrs_wire_info_req *req = (void *)arena;
	struct ibv_sge sge = { (uintptr_t)req, sizeof(*req), mr->lkey };
	struct ibv_send_wr send = { .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND };
	struct ibv_wc wc;

	chunks = calloc(session.queue_depth, sizeof(*chunks));
	if (!chunks || size > SLOT_SIZE || session.queue_depth < NR_SLOTS)
		die("depth");
	rtrs_info_req_encode(req, name);
	post_recv_at(0, 0, answer_of(0), size);
	post_send(0, &send);
	do {
		while (!ibv_poll_cq(cq, 1, &wc))
			wait_completion();
		if (wc.status != IBV_WC_SUCCESS)
			leave("closed");
	} while (wc.opcode != IBV_WC_RECV);
	if (rtrs_info_rsp_decode(answer_of(0), wc.byte_len, session.queue_depth,
				 session.max_io_size + session.max_hdr_size, chunks))
		die("INFO_RSP");
}

static void post_receives(void)
{
	u64 number;

	for (number = 0; number < NR_CONNS * NR_RECV; number++)
		post_recv(number);
}

/*
 * Requests
 */

struct request {
	u32		cid;
	enum rtrs_dir	dir;
	u32		data_len;
	u8		msg[MSG_SIZE];
	u32		msg_len;
	u8		other[MSG_SIZE];
	u32		other_len;
	u32		usr_len;
	u32		desc_len;
	u8		fill;
};

static int parse_hex(const char *hex, u8 *msg, u32 room)
{
	u32 len = 0;
	unsigned int byte;

	if (!strcmp(hex, "-"))
		return 0;
	for (; *hex; hex += 2) {
		if (len == room || sscanf(hex, "%2x", &byte) != 1)
			return -1;
		msg[len++] = byte;
	}
	return len;
}

static bool parse_option(const char *word, struct request *req, struct slot *slot)
{
	const char *value = strchr(word, '=');

	if (!strcmp(word, "async"))
		slot->async = true;
	else if (!strncmp(word, "fill=", 5))
		req->fill = strtoul(value + 1, NULL, 0);
	else if (!strncmp(word, "usr=", 4))
		req->usr_len = strtoul(value + 1, NULL, 0);
	else if (!strncmp(word, "desc=", 5))
		req->desc_len = strtoul(value + 1, NULL, 0);
	else if (!strncmp(word, "then=", 5))
		req->other_len = parse_hex(value + 1, req->other, sizeof(req->other));
	else
		return false;
	return !req->other_len || req->other_len == req->msg_len;
}

static bool parse(char *line, struct request *req, struct slot *slot)
{
	char *tag = strtok(line, " "), *cid = strtok(NULL, " "), *dir = strtok(NULL, " ");
	char *len = strtok(NULL, " "), *hex = strtok(NULL, " "), *word;
	int n = hex ? parse_hex(hex, req->msg, sizeof(req->msg)) : -1;

	if (n < 0 || strlen(tag) >= sizeof(slot->tag))
		return false;
	strcpy(slot->tag, tag);
	slot->async = false;
	req->cid = atoi(cid);
	req->dir = !strcmp(dir, "read") ? RTRS_DIR_READ : RTRS_DIR_WRITE;
	req->data_len = strtoul(len, NULL, 0);
	req->msg_len = n;
	req->usr_len = n;
	req->desc_len = req->data_len;
	req->other_len = 0;
	req->fill = 0xd7;
	while ((word = strtok(NULL, " ")))
		if (!parse_option(word, req, slot))
			return false;
	return req->cid < NR_CONNS &&
	       req->data_len + CANARIES + 3 * MSG_SIZE + RTRS_MAX_IO_HDR < SLOT_SIZE;
}

/* Lay a request out, see "Requests" in rtrs/wire.h; returns its length. */
static u32 fill_request(u8 *buf, const struct request *req, u32 id)
{
	struct rtrs_desc desc = { (uintptr_t)answer_of(id), mr->rkey, req->desc_len };
	u32 len = 0;

	if (req->dir == RTRS_DIR_WRITE) {
		memset(buf, req->fill, req->data_len);
		len = req->data_len;
	}
	memcpy(buf + len, req->msg, req->msg_len);
	len += req->msg_len;
	if (req->dir == RTRS_DIR_WRITE)
		return len + rtrs_write_hdr_encode(buf + len, req->usr_len);
	return len + rtrs_read_hdr_encode(buf + len, req->usr_len, false,
					  req->desc_len ? &desc : NULL);
}

/* Write over the message what it shall be, and what it was, in turn. */
static void rewrite(const struct request *req, u32 id)
{
	u8 *copies = answer_of(id) - 2 * MSG_SIZE;
	struct ibv_sge sge = { 0, req->msg_len, mr->lkey };
	struct ibv_send_wr wr = {
		.sg_list = &sge,
		.num_sge = 1,
		.opcode = IBV_WR_RDMA_WRITE,
		.wr.rdma = { chunks[id].addr + req->data_len, chunks[id].key },
	};
	int i;

	memcpy(copies, req->other, req->msg_len);
	memcpy(copies + MSG_SIZE, req->msg, req->msg_len);
	for (i = 0; i < REWRITES; i++) {
		sge.addr = (uintptr_t)copies + i % 2 * MSG_SIZE;
		post_send(req->cid, &wr);
	}
}

static void send_request(const struct request *req, u32 id)
{
	u8 *buf = arena + 2UL * id * SLOT_SIZE;
	u32 gap = req->dir == RTRS_DIR_READ ? req->data_len : 0;
	struct ibv_sge sge = { (uintptr_t)buf, 0, mr->lkey };
	struct ibv_send_wr wr = {
		.sg_list = &sge,
		.num_sge = 1,
		.opcode = IBV_WR_RDMA_WRITE_WITH_IMM,
		.imm_data = htonl(rtrs_io_req_imm(session.queue_depth, id,
						  req->data_len + req->msg_len)),
		.wr.rdma = { chunks[id].addr + gap, chunks[id].key },
	};

	slots[id].busy = true;
	slots[id].len = req->dir == RTRS_DIR_READ ? req->desc_len : 0;
	if (slots[id].len > SLOT_SIZE - CANARIES)
		slots[id].len = SLOT_SIZE - CANARIES;
	memset(answer_of(id), CANARY, SLOT_SIZE);
	sge.length = fill_request(buf, req, id);
	post_send(req->cid, &wr);
	if (req->other_len)
		rewrite(req, id);
}

/* The first id that is free; there must be one. */
static u32 free_id(void)
{
	u32 id;

	for (id = 0; id < NR_SLOTS; id++)
		if (!slots[id].busy)
			return id;
	fprintf(stderr, "too many requests at a time\n");
	exit(2);
}

/* Wait for the answer to a request, or to all. */
static void wait_answers(u32 first, u32 last)
{
	time_t end = time(NULL) + SILENCE;
	u32 id;

	for (id = first; id <= last; id++) {
		while (slots[id].busy && time(NULL) < end)
			pump(-1, 1000);
		if (slots[id].busy)
			printf("%s silent\n", slots[id].tag);
	}
}

static void leave_orderly(void)
{
	int cid;

	for (cid = 0; cid < NR_CONNS; cid++)
		rdma_disconnect(conns[cid]);
	leave("bye");
}

static void handle_line(char *line)
{
	u32 id = free_id();
	struct request req;

	if (!strcmp(line, "quit"))
		leave_orderly();
	if (!strcmp(line, "settle")) {
		wait_answers(0, NR_SLOTS - 1);
		printf("settled\n");
		return;
	}
	if (!parse(line, &req, &slots[id])) {
		fprintf(stderr, "what is this: %s\n", line);
		exit(2);
	}
	send_request(&req, id);
	if (!slots[id].async)
		wait_answers(id, id);
}

/* Read what there is; every complete line is carried out. */
static void handle_input(int input)
{
	static char buf[65536];
	static size_t used;
	ssize_t n = read(input, buf + used, sizeof(buf) - 1 - used);
	char *end;

	if (n < 0)
		die("read");
	used += n;
	buf[used] = '\0';
	while ((end = strchr(buf, '\n'))) {
		*end++ = '\0';
		handle_line(buf);
		used -= end - buf;
		memmove(buf, end, used + 1);
	}
}

int main(int argc, char **argv)
{
	int input;

	if (argc != 5 || inet_pton(AF_INET, argv[1], &server.sin_addr) != 1)
		return 2;
	server.sin_port = htons(atoi(argv[2]));
	setvbuf(stdout, NULL, _IOLBF, 0);
	/* For writing, too: the end of a writer is not the end of the input. */
	input = open(argv[4], O_RDWR);
	if (input < 0)
		die(argv[4]);
	channel = rdma_create_event_channel();
	if (!channel)
		die("rdma_create_event_channel");
	connect_all();
	exchange_info(argv[3]);
	post_receives();
	printf("ready %u %u %u\n", session.queue_depth, session.max_io_size,
	       session.max_io_size + session.max_hdr_size);
	for (;;)
		if (pump(input, 1000))
			handle_input(input);
}
