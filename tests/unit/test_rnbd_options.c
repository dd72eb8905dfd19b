// SPDX-License-Identifier: GPL-2.0
/*
 * The option string of map_device: every key, every way to get it wrong.
 * Known bugs: D15, D17.
 */
#include "unit.h"

#include "rnbd/client/options.h"

#define CPUS 8
#define MINIMAL "sessname=s device_path=/dev/ram0 "

/* Parse a copy; @text stays for the paths, which point into it */
static int parse(const char *line, struct rnbd_map_options *o, char **text)
{
	*text = strdup(line);
	memset(o, 0xee, sizeof(*o));
	return rnbd_options_parse(*text, CPUS, o);
}

static void refused(const char *line, int want, const char *key)
{
	struct rnbd_map_options o;
	char *text;
	int err = parse(line, &o, &text);

	if (err != want)
		fail_msg("\"%s\": got %d, want %d", line, err, want);
	/* the log line says what is wrong and where */
	if (!o.why || !*o.why || !o.bad_key || strcmp(o.bad_key, key))
		fail_msg("\"%s\": blames %s (%s), want %s", line,
			 o.bad_key ? o.bad_key : "nothing",
			 o.why ? o.why : "no reason", key);
	free(text);
}

static void minimal(void **state)
{
	struct rnbd_map_options o;
	char *text;

	(void)state;
	assert_int_equal(parse("sessname=s device_path=/dev/ram0", &o, &text),
			 0);
	assert_string_equal(o.sess, "s");
	assert_string_equal(o.dev, "/dev/ram0");
	assert_int_equal(o.nr_paths, 0);
	assert_int_equal(o.port, 1234);
	assert_int_equal(o.mode, RNBD_ACCESS_RW);
	assert_int_equal(o.nr_poll_queues, 0);
	assert_int_equal(o.fail_tmo, 0);
	free(text);
}

static void everything(void **state)
{
	struct rnbd_map_options o;
	char *text;

	(void)state;
	assert_int_equal(parse("dest_port=4321 path=ip:10.0.0.1@ip:10.0.0.2 "
			       "access_mode=migration device_path=a=b "
			       "nr_poll_queues=3 path=gid:fe80::1 sessname=blk "
			       "fast_io_fail_tmo=60", &o, &text), 0);
	assert_string_equal(o.sess, "blk");
	/* only the first '=' separates */
	assert_string_equal(o.dev, "a=b");
	assert_int_equal(o.nr_paths, 2);
	assert_string_equal(o.path[0], "ip:10.0.0.1@ip:10.0.0.2");
	assert_string_equal(o.path[1], "gid:fe80::1");
	assert_int_equal(o.port, 4321);
	assert_int_equal(o.mode, RNBD_ACCESS_MIGRATION);
	assert_int_equal(o.nr_poll_queues, 3);
	assert_int_equal(o.fail_tmo, 60);
	assert_null(o.bad_key);
	free(text);
}

static void white_space(void **state)
{
	static const char *const good[] = {
		"  sessname=s device_path=d",
		"sessname=s device_path=d\n",
		"\n\t sessname=s    device_path=d \n\n",
	};
	struct rnbd_map_options o;
	char *text;
	size_t i;

	(void)state;
	for (i = 0; i < ARRAY_LEN(good); i++) {
		assert_case(parse(good[i], &o, &text), 0, "%s", good[i]);
		assert_string_equal(o.sess, "s");
		assert_string_equal(o.dev, "d");
		free(text);
	}
	/* inside, only blanks separate */
	refused("sessname=s\tdevice_path=d", -EINVAL, "(text)");
	refused("sessname=s\ndevice_path=d", -EINVAL, "(text)");
	refused("sessname=s\rx device_path=d", -EINVAL, "(text)");
	refused("sess\tname=s device_path=d", -EINVAL, "(text)");
	refused("sessname=s\x7f device_path=d", -EINVAL, "(text)");
}

static void missing(void **state)
{
	(void)state;
	refused("", -EINVAL, "sessname");
	refused(" \n", -EINVAL, "sessname");
	refused("device_path=d", -EINVAL, "sessname");
	refused("sessname=s", -EINVAL, "device_path");
	refused("sessname=s path=ip:1.2.3.4", -EINVAL, "device_path");
}

static void malformed(void **state)
{
	static const char *const keys[] = {
		"sessname", "device_path", "path", "dest_port", "access_mode",
		"nr_poll_queues", "fast_io_fail_tmo",
	};
	char line[200];
	size_t i;

	(void)state;
	for (i = 0; i < ARRAY_LEN(keys); i++) {
		snprintf(line, sizeof(line), MINIMAL "%s", keys[i]);
		refused(line, -EINVAL, keys[i]);
		snprintf(line, sizeof(line), MINIMAL "%s=", keys[i]);
		refused(line, -EINVAL, keys[i]);
		/* the key is matched exactly */
		snprintf(line, sizeof(line), "%sx=1 ", keys[i]);
		line[strlen(line) - 3] = '\0';
		refused(line, -EINVAL, line);
	}
	refused(MINIMAL "unknown=1", -EINVAL, "unknown");
	refused(MINIMAL "unknown", -EINVAL, "unknown");
	refused(MINIMAL "=1", -EINVAL, "");
	refused(MINIMAL "Sessname=1", -EINVAL, "Sessname");
	refused(MINIMAL "sessnam=1", -EINVAL, "sessnam");
	refused(MINIMAL "sessname =1", -EINVAL, "sessname");
	refused(MINIMAL "sessname= 1", -EINVAL, "sessname");
}

static void last_one_wins(void **state)
{
	struct rnbd_map_options o;
	char *text;

	(void)state;
	assert_int_equal(parse("sessname=longer device_path=/dev/longer "
			       "sessname=s device_path=d dest_port=1 "
			       "dest_port=2 access_mode=ro access_mode=rw "
			       "nr_poll_queues=1 nr_poll_queues=2", &o, &text),
			 0);
	assert_string_equal(o.sess, "s");
	assert_string_equal(o.dev, "d");
	assert_int_equal(o.port, 2);
	assert_int_equal(o.mode, RNBD_ACCESS_RW);
	assert_int_equal(o.nr_poll_queues, 2);
	free(text);
	/* a bad one is bad even if a good one follows */
	refused("sessname=a/b device_path=d sessname=s", -EINVAL, "sessname");
	refused(MINIMAL "dest_port=x dest_port=1", -EINVAL, "dest_port");
	/* a day is the most */
	assert_int_equal(parse(MINIMAL "fast_io_fail_tmo=86400", &o, &text), 0);
	assert_int_equal(o.fail_tmo, 86400);
	free(text);
	refused(MINIMAL "fast_io_fail_tmo=86401", -EINVAL, "fast_io_fail_tmo");
	refused(MINIMAL "fast_io_fail_tmo=-1", -EINVAL, "fast_io_fail_tmo");
}

static void names(void **state)
{
	struct rnbd_map_options o;
	char line[700], name[300], *text;
	size_t n;

	(void)state;
	for (n = 1; n < sizeof(name); n++) {
		memset(name, 'n', n);
		name[n] = '\0';
		snprintf(line, sizeof(line), "sessname=%s device_path=d", name);
		if (n <= 254) {
			assert_case(parse(line, &o, &text), 0, "%zu", n);
			assert_string_equal(o.sess, name);
			free(text);
		} else {
			refused(line, -EINVAL, "sessname");
		}
		snprintf(line, sizeof(line), "sessname=s device_path=%s", name);
		if (n <= 254) {
			assert_case(parse(line, &o, &text), 0, "%zu", n);
			assert_string_equal(o.dev, name);
			free(text);
		} else {
			refused(line, -EINVAL, "device_path");
		}
	}
	refused("sessname=a/b device_path=d", -EINVAL, "sessname");
	refused("sessname=a.b device_path=d", -EINVAL, "sessname");
	refused("sessname=s device_path=a..b", -EINVAL, "device_path");
	refused("sessname=s device_path=../d", -EINVAL, "device_path");
}

static void paths(void **state)
{
	char line[400] = MINIMAL, *text;
	struct rnbd_map_options o;
	unsigned int n;

	(void)state;
	for (n = 1; n <= 6; n++) {
		snprintf(line + strlen(line), 40, " path=ip:10.0.0.%u", n);
		assert_case(parse(line, &o, &text), 0, "%u paths", n);
		assert_int_equal(o.nr_paths, n);
		assert_string_equal(o.path[0], "ip:10.0.0.1");
		assert_int_equal(o.path[n - 1][10], '0' + n);
		free(text);
	}
	strcat(line, " path=ip:10.0.0.7");
	refused(line, -ENOMEM, "path");
}

static void numbers(void **state)
{
	static const struct {
		const char *text;
		int port;	/* -1: refused */
		int polls;	/* -1: refused */
	} t[] = {
		{ "0", 0, 0 },		{ "1", 1, 1 },
		{ "7", 7, 7 },		{ "8", 8, 8 },
		{ "9", 9, -1 },		{ "-1", -1, 8 },
		{ "-2", -1, -1 },	{ "0x8", 8, 8 },
		{ "010", 8, 8 },	{ "65535", 65535, -1 },
		{ "65536", -1, -1 },	{ "0xffff", 65535, -1 },
		{ "0x10000", -1, -1 },	{ "4294967296", -1, -1 },
		{ "4294967295", -1, -1 }, { "18446744073709551616", -1, -1 },
		{ "-2147483649", -1, -1 }, { "x", -1, -1 },
		{ "1x", -1, -1 },	{ "1.0", -1, -1 },
		{ "0x", -1, -1 },	{ "1,2", -1, -1 },
		{ "--1", -1, -1 },	{ "08", -1, -1 },
	};
	struct rnbd_map_options o;
	char line[200], *text;
	size_t i;

	(void)state;
	for (i = 0; i < ARRAY_LEN(t); i++) {
		snprintf(line, sizeof(line), MINIMAL "dest_port=%s", t[i].text);
		if (t[i].port < 0) {
			refused(line, -EINVAL, "dest_port");
		} else {
			assert_case(parse(line, &o, &text), 0, "%s", line);
			assert_case(o.port, t[i].port, "%s", line);
			free(text);
		}
		snprintf(line, sizeof(line), MINIMAL "nr_poll_queues=%s",
			 t[i].text);
		if (t[i].polls < 0) {
			refused(line, -EINVAL, "nr_poll_queues");
		} else {
			assert_case(parse(line, &o, &text), 0, "%s", line);
			assert_case(o.nr_poll_queues, t[i].polls, "%s", line);
			free(text);
		}
	}
}

static void access_modes(void **state)
{
	static const char *const bad[] = { "r", "RO", "row", "readonly", "w",
					   "migrate", "0", "rw,ro" };
	static const char *const good[] = { "ro", "rw", "migration" };
	struct rnbd_map_options o;
	char line[200], *text;
	size_t i;

	(void)state;
	for (i = 0; i < ARRAY_LEN(bad); i++) {
		snprintf(line, sizeof(line), MINIMAL "access_mode=%s", bad[i]);
		refused(line, -EINVAL, "access_mode");
	}
	for (i = 0; i < ARRAY_LEN(good); i++) {
		snprintf(line, sizeof(line), MINIMAL "access_mode=%s", good[i]);
		assert_int_equal(parse(line, &o, &text), 0);
		assert_int_equal(o.mode, i);
		assert_string_equal(rnbd_access_mode_name(o.mode), good[i]);
		free(text);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(minimal),
		cmocka_unit_test(everything),
		cmocka_unit_test(white_space),
		cmocka_unit_test(missing),
		cmocka_unit_test(malformed),
		cmocka_unit_test(last_one_wins),
		cmocka_unit_test(names),
		cmocka_unit_test(paths),
		cmocka_unit_test(numbers),
		cmocka_unit_test(access_modes),
	};

	return cmocka_run_group_tests_name("rnbd_options", tests, NULL, NULL);
}
