/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The states of a client's path, pure, so that the unit tests walk every pair.
 * path.c says what they mean and who changes them.
 */
#ifndef RTRS_CLIENT_STATE_H
#define RTRS_CLIENT_STATE_H

#include <linux/types.h>

enum client_path_state {
	CLIENT_CONNECTING,
	CLIENT_CONNECTED,
	CLIENT_CONNECTING_ERR,
	CLIENT_RECONNECTING,
	CLIENT_CLOSING,
	CLIENT_CLOSED,
	CLIENT_DEAD,
	CLIENT_NR_STATES,
};

/**
 * client_path_may() - is a change of state allowed?
 * @from:	state now
 * @to:		wanted
 *
 * Return: whether it is.
 */
static inline bool client_path_may(enum client_path_state from,
				   enum client_path_state to)
{
	switch (from) {
	case CLIENT_CONNECTING:
		return to == CLIENT_CONNECTED || to == CLIENT_CONNECTING_ERR ||
		       to == CLIENT_CLOSING;
	case CLIENT_CONNECTED:
	case CLIENT_CONNECTING_ERR:
		return to == CLIENT_RECONNECTING || to == CLIENT_CLOSING;
	case CLIENT_RECONNECTING:
		return to == CLIENT_CONNECTING || to == CLIENT_CLOSING;
	case CLIENT_CLOSING:
		return to == CLIENT_CLOSED;
	case CLIENT_CLOSED:
		return to == CLIENT_RECONNECTING || to == CLIENT_DEAD;
	default:
		return false;
	}
}

#endif /* RTRS_CLIENT_STATE_H */
