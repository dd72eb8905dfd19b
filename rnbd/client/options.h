/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The option string of map_device.  Pure functions on text, also compiled on
 * the host for the unit tests.
 */
#ifndef RNBD_CLIENT_OPTIONS_H
#define RNBD_CLIENT_OPTIONS_H

#include <linux/types.h>

#include "rnbd/wire.h"

#define RNBD_MAP_MAX_PATHS	6

/* A day, seconds: for how long I/O may wait at most */
#define RNBD_MAX_FAIL_TMO	86400

/**
 * struct rnbd_map_options - what a map_device line says
 * @sess:	session name
 * @dev:	device name below the server's search path
 * @path:	path specifications, not looked at yet; they point into the text
 * @nr_paths:	how many
 * @port:	destination port, of every path
 * @mode:	access mode
 * @nr_poll_queues: polled queues; -1 in the text has become all processors
 * @fail_tmo:	seconds that I/O waits for the session to return
 * @bad_key:	when the text is refused: the key at fault
 * @why:	when the text is refused: what is wrong, in words
 */
struct rnbd_map_options {
	char			sess[RTRS_NAME_LEN];
	char			dev[RNBD_NAME_LEN];
	const char		*path[RNBD_MAP_MAX_PATHS];
	unsigned int		nr_paths;
	u16			port;
	enum rnbd_access_mode	mode;
	unsigned int		nr_poll_queues;
	unsigned int		fail_tmo;
	const char		*bad_key;
	const char		*why;
};

int rnbd_options_parse(char *text, unsigned int nr_cpus,
		       struct rnbd_map_options *opts);
const char *rnbd_access_mode_name(enum rnbd_access_mode mode);

#endif /* RNBD_CLIENT_OPTIONS_H */
