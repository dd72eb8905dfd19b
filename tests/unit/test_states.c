// SPDX-License-Identifier: GPL-2.0
/*
 * State machines: every pair of states, allowed or not, as the tables in the
 * README files say.
 */
#include "unit.h"

#include "rnbd/server/state.h"

/* The states of an opening at the RNBD server */
static void rnbd_opening(void **state)
{
	static const bool may[4][4] = {
		/* to:	      NEW    OPEN   CLOSING CLOSED */
		/* NEW */     { false, true,  false, false },
		/* OPEN */    { false, false, true,  false },
		/* CLOSING */ { false, false, false, true },
		/* CLOSED */  { false, false, false, false },
	};
	int from, to;

	(void)state;
	assert_int_equal(RNBD_OPENING_NEW, 0);
	assert_int_equal(RNBD_OPENING_OPEN, 1);
	assert_int_equal(RNBD_OPENING_CLOSING, 2);
	assert_int_equal(RNBD_OPENING_CLOSED, 3);
	for (from = 0; from < 4; from++)
		for (to = 0; to < 4; to++)
			assert_case(rnbd_opening_may(from, to), may[from][to],
				    "opening %d -> %d", from, to);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(rnbd_opening),
	};

	return cmocka_run_group_tests_name("states", tests, NULL, NULL);
}
