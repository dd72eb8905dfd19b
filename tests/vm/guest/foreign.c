// SPDX-License-Identifier: GPL-2.0
/*
 * foreign PORT magic|major|short
 *
 * Accepts one RDMA connection after the other with private data that is
 * almost, but not quite, what an RTRS server answers.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <arpa/inet.h>
#include <rdma/rdma_cma.h>

/* An accepted connection of an RTRS 2.0 server with 8 buffers of 8192 bytes */
static unsigned char answer[56] = {
	0xbd, 0x1b, 0x00, 0x02, 0x00, 0x00, 0x08, 0x00,
	0x00, 0x10, 0x00, 0x00, 0x00, 0x10, 0x00, 0x00,
};

static void die(const char *what)
{
	perror(what);
	exit(1);
}

static void accept_one(struct rdma_cm_id *id, size_t len)
{
	struct ibv_qp_init_attr attr = {
		.qp_type = IBV_QPT_RC,
		.cap = { 8, 8, 1, 1, 0 },
	};
	struct rdma_conn_param param = {
		.private_data = answer,
		.private_data_len = len,
		.rnr_retry_count = 7,
	};

	if (rdma_create_qp(id, NULL, &attr))
		die("rdma_create_qp");
	if (rdma_accept(id, &param))
		die("rdma_accept");
}

int main(int argc, char **argv)
{
	struct rdma_event_channel *channel = rdma_create_event_channel();
	struct sockaddr_in addr = { .sin_family = AF_INET };
	struct rdma_cm_event *event;
	struct rdma_cm_id *listener;
	size_t len = sizeof(answer);

	if (argc != 3)
		return 2;
	addr.sin_port = htons(atoi(argv[1]));
	if (!strcmp(argv[2], "magic"))
		answer[0] = 0xbe;
	else if (!strcmp(argv[2], "major"))
		answer[3] = 3;
	else
		memset(answer, 0, len = 8);

	if (!channel || rdma_create_id(channel, &listener, NULL, RDMA_PS_TCP) ||
	    rdma_bind_addr(listener, (struct sockaddr *)&addr) ||
	    rdma_listen(listener, 8))
		die("listen");
	printf("listening\n");
	fflush(stdout);
	while (!rdma_get_cm_event(channel, &event)) {
		struct rdma_cm_id *id = event->id;
		enum rdma_cm_event_type type = event->event;

		rdma_ack_cm_event(event);
		if (type == RDMA_CM_EVENT_CONNECT_REQUEST) {
			accept_one(id, len);
		} else if (type == RDMA_CM_EVENT_DISCONNECTED) {
			rdma_destroy_qp(id);
			rdma_destroy_id(id);
		}
	}
	die("rdma_get_cm_event");
}
