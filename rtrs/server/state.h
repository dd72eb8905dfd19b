/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The states of a server's path, pure, so that the unit tests walk every pair.
 *
 * CONNECTING --INFO_REQ accepted--> CONNECTED --any cause--> CLOSING --> CLOSED
 *      +------------------any cause---------------------------^
 */
#ifndef RTRS_SERVER_STATE_H
#define RTRS_SERVER_STATE_H

#include <linux/types.h>

enum server_path_state {
	SERVER_CONNECTING,
	SERVER_CONNECTED,
	SERVER_CLOSING,
	SERVER_CLOSED,
};

/**
 * server_path_may() - is a change of state allowed?
 * @from:	state now
 * @to:		wanted
 *
 * Return: whether it is.
 */
static inline bool server_path_may(enum server_path_state from,
				   enum server_path_state to)
{
	switch (to) {
	case SERVER_CONNECTED:
		return from == SERVER_CONNECTING;
	case SERVER_CLOSING:
		return from == SERVER_CONNECTING || from == SERVER_CONNECTED;
	case SERVER_CLOSED:
		return from == SERVER_CLOSING;
	default:
		return false;
	}
}

#endif /* RTRS_SERVER_STATE_H */
