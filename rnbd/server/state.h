/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The states of an opening, pure, so that the unit tests walk every pair.
 */
#ifndef RNBD_SERVER_STATE_H
#define RNBD_SERVER_STATE_H

#include <linux/types.h>

/**
 * enum rnbd_opening_state - life of one (session, device) opening
 * @RNBD_OPENING_NEW:	being set up by OPEN; no id leads to it. If that fails it
 *			is taken down again by OPEN alone and never leaves NEW
 * @RNBD_OPENING_OPEN:	its id leads to it, it serves I/O
 * @RNBD_OPENING_CLOSING: somebody has claimed its end; no new I/O
 * @RNBD_OPENING_CLOSED: nothing is left of it but the memory
 */
enum rnbd_opening_state {
	RNBD_OPENING_NEW,
	RNBD_OPENING_OPEN,
	RNBD_OPENING_CLOSING,
	RNBD_OPENING_CLOSED,
};

/**
 * rnbd_opening_may() - is a change of state allowed?
 * @from:	state now
 * @to:		wanted
 *
 * Return: whether it is.
 */
static inline bool rnbd_opening_may(enum rnbd_opening_state from,
				    enum rnbd_opening_state to)
{
	switch (to) {
	case RNBD_OPENING_OPEN:
		return from == RNBD_OPENING_NEW;
	case RNBD_OPENING_CLOSING:
		return from == RNBD_OPENING_OPEN;
	case RNBD_OPENING_CLOSED:
		return from == RNBD_OPENING_CLOSING;
	default:
		return false;
	}
}

#endif /* RNBD_SERVER_STATE_H */
