// SPDX-License-Identifier: GPL-2.0
/*
 * The option string of map_device: key=value words separated by blanks, in any
 * order, the last of a repeated key wins.  There is no quoting.  The parser
 * works in place on the caller's copy of the text, keeps no state and touches
 * nothing of the kernel's, so it is compiled on the host as well.
 *
 * What is refused is refused with the key at fault and a reason in words.
 */
#include <linux/errno.h>
#include <linux/kernel.h>
#include <linux/string.h>
#include <linux/types.h>

#include "rnbd/client/options.h"

static const char * const access_modes[] = {
	[RNBD_ACCESS_RO]	= "ro",
	[RNBD_ACCESS_RW]	= "rw",
	[RNBD_ACCESS_MIGRATION]	= "migration",
};

/**
 * rnbd_access_mode_name() - an access mode in words
 * @mode:	the mode
 *
 * Return: the word that map_device understands.
 */
const char *rnbd_access_mode_name(enum rnbd_access_mode mode)
{
	return access_modes[mode];
}

static int refuse(struct rnbd_map_options *opts, const char *why, int error)
{
	opts->why = why;
	return error;
}

static int set_sessname(struct rnbd_map_options *opts, char *value,
			unsigned int nr_cpus)
{
	size_t len = strlen(value);

	if (len >= RTRS_NAME_LEN)
		return refuse(opts, "longer than 254 characters", -EINVAL);
	if (rtrs_name_len(value, len + 1) < 0)
		return refuse(opts, "must not contain '/' or '.'", -EINVAL);
	memcpy(opts->sess, value, len + 1);
	return 0;
}

static int set_device_path(struct rnbd_map_options *opts, char *value,
			   unsigned int nr_cpus)
{
	size_t len = strlen(value);

	if (len >= RNBD_NAME_LEN)
		return refuse(opts, "longer than 254 characters", -EINVAL);
	if (rnbd_name_check(value, len + 1) < 0)
		return refuse(opts, "must not contain \"..\"", -EINVAL);
	memcpy(opts->dev, value, len + 1);
	return 0;
}

static int set_path(struct rnbd_map_options *opts, char *value,
		    unsigned int nr_cpus)
{
	if (opts->nr_paths == RNBD_MAP_MAX_PATHS)
		return refuse(opts, "more than 6 paths; add the others with add_path",
			      -ENOMEM);
	opts->path[opts->nr_paths++] = value;
	return 0;
}

static int set_dest_port(struct rnbd_map_options *opts, char *value,
			 unsigned int nr_cpus)
{
	unsigned int port;

	if (kstrtouint(value, 0, &port) || port > 65535)
		return refuse(opts, "not a number from 0 to 65535", -EINVAL);
	opts->port = port;
	return 0;
}

static int set_access_mode(struct rnbd_map_options *opts, char *value,
			   unsigned int nr_cpus)
{
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(access_modes); i++) {
		if (!strcmp(value, access_modes[i])) {
			opts->mode = i;
			return 0;
		}
	}
	return refuse(opts, "not one of ro, rw, migration", -EINVAL);
}

static int set_nr_poll_queues(struct rnbd_map_options *opts, char *value,
			      unsigned int nr_cpus)
{
	int n;

	if (kstrtoint(value, 0, &n) || n < -1 || n > (int)nr_cpus)
		return refuse(opts, "not a number from -1 to the number of processors",
			      -EINVAL);
	opts->nr_poll_queues = n < 0 ? nr_cpus : n;
	return 0;
}

static int set_fail_tmo(struct rnbd_map_options *opts, char *value,
			unsigned int nr_cpus)
{
	unsigned int secs;

	if (kstrtouint(value, 0, &secs) || secs > RNBD_MAX_FAIL_TMO)
		return refuse(opts, "not a number of seconds from 0 to 86400",
			      -EINVAL);
	opts->fail_tmo = secs;
	return 0;
}

static const struct option {
	const char *key;
	int (*set)(struct rnbd_map_options *opts, char *value,
		   unsigned int nr_cpus);
} options[] = {
	{ "sessname",		set_sessname },
	{ "device_path",	set_device_path },
	{ "path",		set_path },
	{ "dest_port",		set_dest_port },
	{ "access_mode",	set_access_mode },
	{ "nr_poll_queues",	set_nr_poll_queues },
	{ "fast_io_fail_tmo",	set_fail_tmo },
};

static bool has_control(const char *s)
{
	for (; *s; s++) {
		unsigned char c = *s;

		if (c < ' ' || c == 0x7f)
			return true;
	}
	return false;
}

static int parse_word(struct rnbd_map_options *opts, char *word,
		      unsigned int nr_cpus)
{
	char *value = strchr(word, '=');
	unsigned int i;

	if (value)
		*value++ = '\0';
	opts->bad_key = word;
	if (has_control(word) || (value && has_control(value))) {
		opts->bad_key = "(text)";
		return refuse(opts, "control character; options are separated by blanks",
			      -EINVAL);
	}
	for (i = 0; i < ARRAY_SIZE(options); i++) {
		if (strcmp(word, options[i].key))
			continue;
		if (!value || !*value)
			return refuse(opts, "has no value", -EINVAL);
		return options[i].set(opts, value, nr_cpus);
	}
	return refuse(opts, "unknown option", -EINVAL);
}

/**
 * rnbd_options_parse() - take a map_device line apart
 * @text:	the line, NUL-terminated; is changed, and must stay as long as
 *		@opts->path is used
 * @nr_cpus:	upper limit of nr_poll_queues
 * @opts:	result
 *
 * Return: 0; or -EINVAL or -ENOMEM (too many paths) with @opts->bad_key and
 * @opts->why set.
 */
int rnbd_options_parse(char *text, unsigned int nr_cpus,
		       struct rnbd_map_options *opts)
{
	char *word;
	int err;

	memset(opts, 0, sizeof(*opts));
	opts->port = RTRS_DEFAULT_PORT;
	opts->mode = RNBD_ACCESS_RW;

	text = strim(text);
	while ((word = strsep(&text, " "))) {
		if (!*word)
			continue;
		err = parse_word(opts, word, nr_cpus);
		if (err)
			return err;
	}
	opts->bad_key = "sessname";
	if (!*opts->sess)
		return refuse(opts, "is required", -EINVAL);
	opts->bad_key = "device_path";
	if (!*opts->dev)
		return refuse(opts, "is required", -EINVAL);
	opts->bad_key = NULL;
	return 0;
}
