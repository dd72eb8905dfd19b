/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What the echo client asks of the echo server: to keep some bytes in a drawer
 * and to give them back.
 */
#ifndef RTRS_ECHO_H
#define RTRS_ECHO_H

#include <linux/types.h>

#define ECHO_PORT	4321

enum echo_op {
	ECHO_PUT	= 1,	/* a WRITE: keep the data in drawer @arg */
	ECHO_GET	= 2,	/* a READ: give back what is in drawer @arg */
	ECHO_FAIL	= 3,	/* answer with errno @arg */
};

struct echo_msg {
	__le16	op;
	__le16	arg;
	__le32	len;
	/* So that messages have many lengths; nobody reads it. */
	u8	padding[56];
};

/* Messages have at least this length. */
#define ECHO_MSG_MIN	8

#endif /* RTRS_ECHO_H */
