// SPDX-License-Identifier: GPL-2.0
/*
 * Multipath policies: their names, and which of two paths min-inflight prefers.
 */
#include "unit.h"

#include "rtrs/client/policy.h"

static void names(void **state)
{
	static const struct {
		const char *text;
		int policy;
	} cases[] = {
		{ "round-robin", CLIENT_ROUND_ROBIN },
		{ "Round-Robin\n", CLIENT_ROUND_ROBIN },
		{ "rr", CLIENT_ROUND_ROBIN },
		{ "RR\n", CLIENT_ROUND_ROBIN },
		{ "0", CLIENT_ROUND_ROBIN },
		{ "000\n", CLIENT_ROUND_ROBIN },
		{ "min-inflight", CLIENT_MIN_INFLIGHT },
		{ "mI", CLIENT_MIN_INFLIGHT },
		{ "01", CLIENT_MIN_INFLIGHT },
		{ "MIN-LATENCY", CLIENT_MIN_LATENCY },
		{ "ml", CLIENT_MIN_LATENCY },
		{ "2\n", CLIENT_MIN_LATENCY },
		/* Row C33: nothing but the whole name */
		{ "round-robin-x", -EINVAL },
		{ "round-robi", -EINVAL },
		{ "min-", -EINVAL },
		{ "min", -EINVAL },
		{ "r", -EINVAL },
		{ "rrr", -EINVAL },
		{ " rr", -EINVAL },
		{ "rr ", -EINVAL },
		{ "rr\n\n", -EINVAL },
		{ "3", -EINVAL },
		{ "-1", -EINVAL },
		{ "+1", -EINVAL },
		{ "2 ", -EINVAL },
		{ "0x1", -EINVAL },
		{ "4294967296", -EINVAL },
		/* Row C32: nothing at all */
		{ "\n", -EINVAL },
		{ "", -EINVAL },
	};
	size_t i;

	(void)state;
	for (i = 0; i < ARRAY_LEN(cases); i++) {
		size_t len = strlen(cases[i].text);
		char *text = malloc(len ? len : 1);

		/* Not terminated, and its last byte is the last one. */
		memcpy(text, cases[i].text, len);
		assert_case(client_policy_parse(text, len), cases[i].policy,
			    "policy \"%s\"", cases[i].text);
		free(text);
	}
	assert_int_equal(client_policy_parse("\0", 1), -EINVAL);
}

static void shown(void **state)
{
	(void)state;
	assert_string_equal(client_policy_info(0)->name, "round-robin");
	assert_string_equal(client_policy_info(1)->shown, "MI");
	assert_string_equal(client_policy_info(2)->alias, "ml");
}

/* Is a better than b?  Never are both better than the other. */
static bool better(struct client_load a, struct client_load b)
{
	bool ab = client_load_better(&a, &b), ba = client_load_better(&b, &a);

	assert_false(ab && ba);
	return ab;
}

static void loads(void **state)
{
	const s64 ms = 1000000;

	(void)state;
	/* The load decides, whatever the rest. */
	assert_true(better((struct client_load){ 3, 90 * ms, 1 },
			   (struct client_load){ 4, 1 * ms, 0 }));
	/* Equal loads: clearly faster */
	assert_true(better((struct client_load){ 4, 1 * ms, 1 },
			   (struct client_load){ 4, 90 * ms, 0 }));
	/* Not twice as fast, or too little in absolute terms: in turn */
	assert_true(better((struct client_load){ 4, 60 * ms, 0 },
			   (struct client_load){ 4, 40 * ms, 1 }));
	assert_true(better((struct client_load){ 4, 300000, 0 },
			   (struct client_load){ 4, 10000, 1 }));
	/* Not measured: in turn */
	assert_true(better((struct client_load){ 4, 0, 0 },
			   (struct client_load){ 4, 1 * ms, 1 }));
	assert_true(better((struct client_load){ 4, 1 * ms, 0 },
			   (struct client_load){ 4, 0, 1 }));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(names),
		cmocka_unit_test(shown),
		cmocka_unit_test(loads),
	};

	return cmocka_run_group_tests_name("policy", tests, NULL, NULL);
}
