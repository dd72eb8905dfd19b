// SPDX-License-Identifier: GPL-2.0
/*
 * Spare buffers: the large private buffers of a session.
 *
 * Allocated with the session, taken by an operation for data that does not fit
 * the small private buffer of its id.  Usually given back by the completion of
 * the response that sends from it, or before the response if nothing is sent
 * from it.  If the path dies in between there is no telling who was last: the
 * close work gives back what the path still has, after its connections are
 * drained and its operations have ended.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/bitops.h>
#include <linux/mm.h>

#include "server.h"

/**
 * server_spare_get() - take a spare buffer
 * @path:	whose operation will use it
 *
 * Context: any.
 * Return: the buffer, or NULL if all are in use.
 */
struct server_spare *server_spare_get(struct server_path *path)
{
	struct rtrs_server_session *sess = path->sess;
	u32 i = 0;

	while ((i = find_next_zero_bit(sess->spare_used, sess->nr_spares, i)) <
	       sess->nr_spares) {
		if (!test_and_set_bit_lock(i, sess->spare_used)) {
			WRITE_ONCE(sess->spare[i].path, path);
			return &sess->spare[i];
		}
	}
	return NULL;
}

/**
 * server_spare_put() - give a spare buffer back
 * @spare:	the buffer; no device is going to read it
 *
 * Context: any.
 */
void server_spare_put(struct server_spare *spare)
{
	struct rtrs_server_session *sess = spare->sess;

	WRITE_ONCE(spare->path, NULL);
	clear_bit_unlock(spare - sess->spare, sess->spare_used);
}

/**
 * server_spare_sent() - handler of a response with data from a spare buffer
 * @cq:	completion queue
 * @wc:	completion
 */
void server_spare_sent(struct ib_cq *cq, struct ib_wc *wc)
{
	struct server_spare *spare = container_of(wc->wr_cqe,
						  struct server_spare, cqe);
	struct server_conn *conn = spare->conn;

	/* In case of an error the path gives it back when it is drained. */
	if (wc->status != IB_WC_SUCCESS) {
		server_path_close(conn->path, ib_wc_status_msg(wc->status));
		return;
	}
	server_spare_put(spare);
	rtrs_conn_sent(&conn->base);
}

/**
 * server_spare_release() - give back what the operations of a path have left
 * @path:	drained, without operations
 */
void server_spare_release(struct server_path *path)
{
	struct rtrs_server_session *sess = path->sess;
	u32 i;

	for (i = 0; i < sess->nr_spares; i++)
		if (READ_ONCE(sess->spare[i].path) == path)
			server_spare_put(&sess->spare[i]);
}
