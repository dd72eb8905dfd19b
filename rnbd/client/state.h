/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The states of a mapped device, pure, so that the unit tests walk every pair.
 */
#ifndef RNBD_CLIENT_STATE_H
#define RNBD_CLIENT_STATE_H

#include <linux/types.h>

/**
 * enum rnbd_dev_state - state of a device, as seen in sysfs
 * @RNBD_DEV_INIT:	OPEN not answered yet
 * @RNBD_DEV_OPEN:	usable
 * @RNBD_DEV_CLOSED:	the session lost its last path; waiting for re-OPEN
 * @RNBD_DEV_UNMAPPED:	being removed
 */
enum rnbd_dev_state {
	RNBD_DEV_INIT,
	RNBD_DEV_OPEN,
	RNBD_DEV_CLOSED,
	RNBD_DEV_UNMAPPED,
	RNBD_DEV_STATES
};

/**
 * rnbd_dev_may() - is a change of state allowed?
 * @from:	state now
 * @to:		wanted
 *
 * OPEN may follow OPEN: it was answered again, with another handle.
 *
 * Return: whether it is.
 */
static inline bool rnbd_dev_may(enum rnbd_dev_state from,
				enum rnbd_dev_state to)
{
	switch (to) {
	case RNBD_DEV_OPEN:
		return from != RNBD_DEV_UNMAPPED;
	case RNBD_DEV_CLOSED:
		return from == RNBD_DEV_OPEN;
	case RNBD_DEV_UNMAPPED:
		return from != RNBD_DEV_UNMAPPED;
	default:
		return false;
	}
}

#endif /* RNBD_CLIENT_STATE_H */
