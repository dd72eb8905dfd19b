// SPDX-License-Identifier: GPL-2.0
/*
 * The option string of map_device.  Input: number of processors (1 byte), the
 * text.  It comes from root and not from a peer, but root's scripts err.
 */
#include "fuzz.h"

#include "rnbd/client/options.h"

static void accepted(const struct rnbd_map_options *o, unsigned int cpus,
		     const char *text, size_t size)
{
	unsigned int i;

	REQUIRE(rtrs_name_len(o->sess, sizeof(o->sess)) > 0);
	REQUIRE(rnbd_name_check(o->dev, sizeof(o->dev)) > 0);
	REQUIRE(o->nr_paths <= RNBD_MAP_MAX_PATHS);
	REQUIRE(o->mode <= RNBD_ACCESS_MIGRATION);
	REQUIRE(rnbd_access_mode_name(o->mode));
	REQUIRE(o->nr_poll_queues <= cpus);
	REQUIRE(!o->bad_key);
	/* paths lie in the text and are words of it */
	for (i = 0; i < o->nr_paths; i++) {
		REQUIRE(o->path[i] > text && o->path[i] < text + size);
		REQUIRE(*o->path[i] && !strpbrk(o->path[i], " \t\n"));
	}
}

int LLVMFuzzerTestOneInput(const u8 *data, size_t size)
{
	unsigned int cpus = 1 + take(&data, &size, 1);
	struct rnbd_map_options o;
	char *text = malloc(size + 1);
	int err;

	memcpy(text, data, size);
	text[size] = '\0';
	memset(&o, 0xee, sizeof(o));
	err = rnbd_options_parse(text, cpus, &o);
	if (!err) {
		accepted(&o, cpus, text, size);
	} else {
		REQUIRE(err == -EINVAL || err == -ENOMEM);
		REQUIRE(o.why && *o.why && o.bad_key);
	}
	free(text);
	return 0;
}
