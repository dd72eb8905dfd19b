// SPDX-License-Identifier: GPL-2.0
/*
 * hostile ADDRESS PORT silent COUNT	COUNT sessions of one connection that say no more
 * hostile ADDRESS PORT crowd COUNT	one session of COUNT connections that says no more
 * hostile ADDRESS PORT drip SECONDS	one session that adds a connection every so often
 * hostile ADDRESS PORT astray ADDRESS	one path with its second connection to there
 * hostile ADDRESS PORT info KIND	one session whose name is of that kind
 * hostile ADDRESS PORT deaf NAME	one session that is alive, asks one thing and
 *					takes no answer
 *
 * A client of an RTRS server that does not keep to the rules.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>
#include <rdma/rdma_cma.h>

#define INFO_REQ_SIZE	272
#define NAME_SIZE	255
#define RSP_SIZE	(8 + 16 * 65535)
#define MSG_WRITE	2
#define IMM_HB_MSG	(8U << 28)
#define IMM_HB_ACK	(9U << 28)
#define NR_RECV		64

static struct rdma_event_channel *channel;
static struct sockaddr_in server = { .sin_family = AF_INET };

static void die(const char *what)
{
	perror(what);
	exit(1);
}

/* The next event but ends of others; -1 if it is not the wanted one. */
static int expect(enum rdma_cm_event_type wanted)
{
	struct rdma_cm_event *event;
	enum rdma_cm_event_type type;

	do {
		if (rdma_get_cm_event(channel, &event))
			die("rdma_get_cm_event");
		type = event->event;
		rdma_ack_cm_event(event);
	} while (type == RDMA_CM_EVENT_DISCONNECTED);
	return type == wanted ? 0 : -1;
}

/*
 * A connection, or NULL if it was refused.  Number 0 begins a session, the others
 * belong to the session that was begun last.
 */
static struct rdma_cm_id *connect_cid(int cid, int cid_num)
{
	static unsigned char request[56] = { 0, 0, 0xbd, 0x1b, 0x00, 0x02 };
	struct ibv_qp_init_attr attr = {
		.qp_type = IBV_QPT_RC,
		.cap = { NR_RECV, NR_RECV, 1, 1, 0 },
	};
	struct rdma_conn_param param = {
		.private_data = request,
		.private_data_len = sizeof(request),
		.retry_count = 7,
		.rnr_retry_count = 7,
	};
	struct rdma_cm_id *id;

	request[6] = cid;
	request[7] = cid >> 8;
	request[8] = cid_num;
	request[9] = cid_num >> 8;
	request[10] = 1;
	if (!cid && getrandom(request + 12, 32, 0) != 32)
		die("getrandom");
	request[44] = 1;
	if (rdma_create_id(channel, &id, NULL, RDMA_PS_TCP))
		die("rdma_create_id");
	if (rdma_resolve_addr(id, NULL, (struct sockaddr *)&server, 5000) ||
	    expect(RDMA_CM_EVENT_ADDR_RESOLVED))
		die("rdma_resolve_addr");
	if (rdma_resolve_route(id, 5000) || expect(RDMA_CM_EVENT_ROUTE_RESOLVED))
		die("rdma_resolve_route");
	if (rdma_create_qp(id, NULL, &attr))
		die("rdma_create_qp");
	if (rdma_connect(id, &param))
		die("rdma_connect");
	if (!expect(RDMA_CM_EVENT_ESTABLISHED))
		return id;
	rdma_destroy_qp(id);
	rdma_destroy_id(id);
	return NULL;
}

static void silent(int count)
{
	int i, refused = 0;

	for (i = 0; i < count; i++)
		if (!connect_cid(0, 1))
			refused++;
	printf("all asked, %d refused\n", refused);
	fflush(stdout);
	for (;;)
		pause();
}

static void say(const char *what)
{
	printf("%s\n", what);
	fflush(stdout);
}

/* How many of a session's connections are accepted */
static void crowd(int count)
{
	int i;

	for (i = 0; i < count && connect_cid(i, count); i++)
		;
	printf("all asked, %d refused\n", count - i);
	fflush(stdout);
	for (;;)
		pause();
}

/* One connection after the other, always in time */
static void drip(int seconds)
{
	int i;

	for (i = 0; connect_cid(i, 64); i++) {
		say("connected");
		sleep(seconds);
	}
}

/* Prints whether a path may lead to two addresses. */
static int astray(const char *address)
{
	if (!connect_cid(0, 2))
		return 3;
	if (inet_pton(AF_INET, address, &server.sin_addr) != 1)
		return 2;
	say(connect_cid(1, 2) ? "accepted" : "refused");
	return 0;
}

static void fill_name(char *name, const char *kind)
{
	if (!strcmp(kind, "endless"))
		memset(name, 'x', NAME_SIZE);
	else if (!strcmp(kind, "slash"))
		strcpy(name, "a/b");
	else if (!strcmp(kind, "dot"))
		strcpy(name, "..");
	else if (!strncmp(kind, "taken:", 6))
		strncpy(name, kind + 6, NAME_SIZE - 1);
	else if (strcmp(kind, "empty"))
		strncpy(name, kind, NAME_SIZE - 1);
}

static void post_send(struct rdma_cm_id *id, struct ibv_send_wr *wr)
{
	struct ibv_send_wr *bad;

	if (ibv_post_send(id->qp, wr, &bad))
		die("ibv_post_send");
}

/* A receive into the whole of an entry, or without a buffer */
static void post_recv(struct rdma_cm_id *id, struct ibv_sge *sge)
{
	struct ibv_recv_wr wr = { .sg_list = sge, .num_sge = !!sge }, *bad;

	if (ibv_post_recv(id->qp, &wr, &bad))
		die("ibv_post_recv");
}

/* Has the server closed the session? */
static int closed(void)
{
	struct rdma_cm_event *event;
	enum rdma_cm_event_type type;

	if (rdma_get_cm_event(channel, &event)) {
		if (errno != EAGAIN)
			die("rdma_get_cm_event");
		return 0;
	}
	type = event->event;
	rdma_ack_cm_event(event);
	return type == RDMA_CM_EVENT_DISCONNECTED;
}

/* INFO_REQ with a name of a kind; the answer will be behind it. */
static char *send_info(struct rdma_cm_id *id, const char *kind, struct ibv_mr **mr)
{
	char *buffer = calloc(1, INFO_REQ_SIZE + RSP_SIZE);
	struct ibv_sge tx, rx;
	struct ibv_send_wr send = { .sg_list = &tx, .num_sge = 1, .opcode = IBV_WR_SEND };

	if (!buffer)
		die("calloc");
	*mr = ibv_reg_mr(id->pd, buffer, INFO_REQ_SIZE + RSP_SIZE, IBV_ACCESS_LOCAL_WRITE);
	if (!*mr)
		die("ibv_reg_mr");
	fill_name(buffer + 2, kind);
	tx = (struct ibv_sge){ (uintptr_t)buffer, INFO_REQ_SIZE, (*mr)->lkey };
	rx = (struct ibv_sge){ (uintptr_t)buffer + INFO_REQ_SIZE, RSP_SIZE, (*mr)->lkey };
	post_recv(id, &rx);
	post_send(id, &send);
	fcntl(channel->fd, F_SETFL, O_NONBLOCK);
	return buffer + INFO_REQ_SIZE;
}

/* Prints "accepted" if the server answers, "closed" when it closes. */
static int info(const char *kind)
{
	struct rdma_cm_id *id = connect_cid(0, 1);
	struct ibv_mr *mr;
	struct ibv_wc wc;
	int said = 0;

	if (!id) {
		say("refused");
		return 3;
	}
	send_info(id, kind, &mr);
	for (;; usleep(10000)) {
		if (closed()) {
			say("closed");
			return said;
		}
		while (ibv_poll_cq(id->recv_cq, 1, &wc) > 0) {
			if (wc.status == IBV_WC_SUCCESS && wc.opcode & IBV_WC_RECV && !said) {
				said = 1;
				say("accepted");
			}
		}
	}
}

/* A request that is answered with an error: a write with a message of zeros */
static void ask(struct rdma_cm_id *id, const char *rsp, struct ibv_mr *mr)
{
	static const unsigned char hdr[4] = { MSG_WRITE, 0, 8, 0 };
	unsigned char *at = memset((char *)rsp + RSP_SIZE - 12, 0, 12);
	struct ibv_sge sge = { (uintptr_t)at, 12, mr->lkey };
	struct ibv_send_wr wr = {
		.sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_RDMA_WRITE_WITH_IMM,
		/* Buffer 0 with its header behind the message */
		.imm_data = htonl(8),
	};

	memcpy(at + 8, hdr, sizeof(hdr));
	memcpy(&wr.wr.rdma.remote_addr, rsp + 8, 8);
	memcpy(&wr.wr.rdma.rkey, rsp + 16, 4);
	post_send(id, &wr);
}

/* Prints "asked" after the request, "closed" when the server closes. */
static int deaf(const char *name)
{
	struct rdma_cm_id *id = connect_cid(0, 2), *io = id ? connect_cid(1, 2) : NULL;
	struct ibv_send_wr ack = { .opcode = IBV_WR_RDMA_WRITE_WITH_IMM,
				   .imm_data = htonl(IMM_HB_ACK),
				   .send_flags = IBV_SEND_SIGNALED };
	struct ibv_mr *mr;
	struct ibv_wc wc;
	const char *rsp;
	int i;

	if (!io) {
		say("refused");
		return 3;
	}
	rsp = send_info(id, name, &mr);
	for (i = 1; i < NR_RECV; i++)
		post_recv(id, NULL);
	for (;; usleep(10000)) {
		if (closed()) {
			say("closed");
			return 0;
		}
		while (ibv_poll_cq(id->send_cq, 1, &wc) > 0)
			;
		while (ibv_poll_cq(id->recv_cq, 1, &wc) > 0) {
			if (wc.status != IBV_WC_SUCCESS)
				continue;
			if (wc.opcode == IBV_WC_RECV) {
				ask(io, rsp, mr);
				say("asked");
			} else if (ntohl(wc.imm_data) == IMM_HB_MSG) {
				post_recv(id, NULL);
				post_send(id, &ack);
			}
		}
	}
}

int main(int argc, char **argv)
{
	channel = rdma_create_event_channel();
	if (argc != 5 || !channel || inet_pton(AF_INET, argv[1], &server.sin_addr) != 1)
		return 2;
	server.sin_port = htons(atoi(argv[2]));
	if (!strcmp(argv[3], "silent"))
		silent(atoi(argv[4]));
	if (!strcmp(argv[3], "crowd"))
		crowd(atoi(argv[4]));
	if (!strcmp(argv[3], "drip"))
		drip(atoi(argv[4]));
	if (!strcmp(argv[3], "astray"))
		return astray(argv[4]);
	if (!strcmp(argv[3], "deaf"))
		return deaf(argv[4]);
	return info(argv[4]);
}
