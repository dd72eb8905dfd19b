// SPDX-License-Identifier: GPL-2.0
/*
 * hostile ADDRESS PORT silent COUNT	COUNT sessions of one connection that say no more
 * hostile ADDRESS PORT info KIND	one session whose name is of that kind
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

static struct rdma_event_channel *channel;
static struct sockaddr_in server = { .sin_family = AF_INET };

static void die(const char *what)
{
	perror(what);
	exit(1);
}

/* The next event; its type must be the wanted one, or -1 is returned. */
static int expect(enum rdma_cm_event_type wanted)
{
	struct rdma_cm_event *event;
	int ok;

	if (rdma_get_cm_event(channel, &event))
		die("rdma_get_cm_event");
	ok = event->event == wanted ? 0 : -1;
	rdma_ack_cm_event(event);
	return ok;
}

/* A connection with cid 0 of 1 in a session of its own, or NULL if it was refused */
static struct rdma_cm_id *connect_one(void)
{
	unsigned char request[56] = { 0, 0, 0xbd, 0x1b, 0x00, 0x02, 0, 0, 1, 0, 1, 0 };
	struct ibv_qp_init_attr attr = {
		.qp_type = IBV_QPT_RC,
		.cap = { 8, 8, 1, 1, 0 },
	};
	struct rdma_conn_param param = {
		.private_data = request,
		.private_data_len = sizeof(request),
		.retry_count = 7,
		.rnr_retry_count = 7,
	};
	struct rdma_cm_id *id;

	if (getrandom(request + 12, 32, 0) != 32)
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
		if (!connect_one())
			refused++;
	printf("all asked, %d refused\n", refused);
	fflush(stdout);
	for (;;)
		pause();
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

/* Prints "accepted" if the server answers, "closed" when it closes. */
static int info(const char *kind)
{
	struct rdma_cm_id *id = connect_one();
	struct ibv_sge tx, rx;
	struct ibv_send_wr send = { .sg_list = &tx, .num_sge = 1, .opcode = IBV_WR_SEND };
	struct ibv_recv_wr recv = { .sg_list = &rx, .num_sge = 1 };
	struct ibv_send_wr *bad_send;
	struct ibv_recv_wr *bad_recv;
	struct rdma_cm_event *event;
	struct ibv_wc wc;
	struct ibv_mr *mr;
	char *buffer;
	int said = 0;

	if (!id) {
		printf("refused\n");
		return 3;
	}
	buffer = calloc(1, INFO_REQ_SIZE + RSP_SIZE);
	if (!buffer)
		die("calloc");
	mr = ibv_reg_mr(id->pd, buffer, INFO_REQ_SIZE + RSP_SIZE, IBV_ACCESS_LOCAL_WRITE);
	if (!mr)
		die("ibv_reg_mr");
	fill_name(buffer + 2, kind);
	tx = (struct ibv_sge){ (uintptr_t)buffer, INFO_REQ_SIZE, mr->lkey };
	rx = (struct ibv_sge){ (uintptr_t)buffer + INFO_REQ_SIZE, RSP_SIZE, mr->lkey };
	if (ibv_post_recv(id->qp, &recv, &bad_recv) || ibv_post_send(id->qp, &send, &bad_send))
		die("post");
	fcntl(channel->fd, F_SETFL, O_NONBLOCK);
	for (;;) {
		if (!rdma_get_cm_event(channel, &event)) {
			enum rdma_cm_event_type type = event->event;

			rdma_ack_cm_event(event);
			if (type == RDMA_CM_EVENT_DISCONNECTED) {
				printf("closed\n");
				return said;
			}
		} else if (errno != EAGAIN) {
			die("rdma_get_cm_event");
		}
		while (ibv_poll_cq(id->recv_cq, 1, &wc) > 0) {
			if (wc.status == IBV_WC_SUCCESS && wc.opcode & IBV_WC_RECV && !said) {
				said = 1;
				printf("accepted\n");
				fflush(stdout);
			}
		}
		usleep(10000);
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
	return info(argv[4]);
}
