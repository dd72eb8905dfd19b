// SPDX-License-Identifier: GPL-2.0
/*
 * State machines: every pair of states, allowed or not, as the tables in the
 * README files say.
 */
#include "unit.h"

#include "rnbd/client/state.h"
#include "rnbd/server/state.h"
#include "rtrs/client/state.h"
#include "rtrs/server/state.h"

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

/* A path at the client */
static void rtrs_client_path(void **state)
{
	/* rows in the order of the enum; to: the same order */
	static const char *const may[] = {
		/* CONNECTING */     ".xx.x..",
		/* CONNECTED */      "...xx..",
		/* CONNECTING_ERR */ "...xx..",
		/* RECONNECTING */   "x...x..",
		/* CLOSING */	     ".....x.",
		/* CLOSED */	     "...x..x",
		/* DEAD */	     ".......",
	};
	int from, to;

	(void)state;
	assert_int_equal(CLIENT_NR_STATES, ARRAY_LEN(may));
	assert_int_equal(CLIENT_CONNECTED, 1);
	assert_int_equal(CLIENT_CONNECTING_ERR, 2);
	assert_int_equal(CLIENT_RECONNECTING, 3);
	assert_int_equal(CLIENT_CLOSING, 4);
	assert_int_equal(CLIENT_CLOSED, 5);
	assert_int_equal(CLIENT_DEAD, 6);
	for (from = 0; from < CLIENT_NR_STATES; from++)
		for (to = 0; to < CLIENT_NR_STATES; to++)
			assert_case(client_path_may(from, to),
				    may[from][to] == 'x',
				    "client path %d -> %d", from, to);
}

/* A path at the server */
static void rtrs_server_path(void **state)
{
	static const char *const may[] = {
		/* CONNECTING */ ".xx.",
		/* CONNECTED */	 "..x.",
		/* CLOSING */	 "...x",
		/* CLOSED */	 "....",
	};
	int from, to;

	(void)state;
	assert_int_equal(SERVER_CONNECTED, 1);
	assert_int_equal(SERVER_CLOSING, 2);
	assert_int_equal(SERVER_CLOSED, 3);
	for (from = 0; from < 4; from++)
		for (to = 0; to < 4; to++)
			assert_case(server_path_may(from, to),
				    may[from][to] == 'x',
				    "server path %d -> %d", from, to);
}

/* A mapped device */
static void rnbd_device(void **state)
{
	static const char *const may[] = {
		/* INIT */     ".x.x",
		/* OPEN */     ".xxx",
		/* CLOSED */   ".x.x",
		/* UNMAPPED */ "....",
	};
	int from, to;

	(void)state;
	assert_int_equal(RNBD_DEV_STATES, ARRAY_LEN(may));
	assert_int_equal(RNBD_DEV_OPEN, 1);
	assert_int_equal(RNBD_DEV_CLOSED, 2);
	assert_int_equal(RNBD_DEV_UNMAPPED, 3);
	for (from = 0; from < RNBD_DEV_STATES; from++)
		for (to = 0; to < RNBD_DEV_STATES; to++)
			assert_case(rnbd_dev_may(from, to),
				    may[from][to] == 'x', "device %d -> %d",
				    from, to);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(rtrs_client_path),
		cmocka_unit_test(rtrs_server_path),
		cmocka_unit_test(rnbd_device),
		cmocka_unit_test(rnbd_opening),
	};

	return cmocka_run_group_tests_name("states", tests, NULL, NULL);
}
