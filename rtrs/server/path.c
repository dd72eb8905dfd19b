// SPDX-License-Identifier: GPL-2.0
/*
 * Paths: the connections from one client address to one of ours.
 *
 * A path is created by the first connection request with an unknown path uuid,
 * under the server's lock, and is in its session's list until the close work
 * takes it out.  The list, every connection and everybody who found it in the
 * list hold a reference.  What takes time comes later: the protection domain
 * with the first connection, memory and regions with INFO_REQ.
 *
 * The state moves under path.lock, in server_path_move() and nowhere else.
 * Accepting a connection and processing INFO_REQ happen under path.setup and
 * only while the state is CONNECTING.  Around rdma_accept() the CM's handler is
 * kept out as well: it must find the connection as the id's context.
 *
 * Every path ends through one door, server_path_close(): from any context, any
 * number of times, by whatever cause.  It sets CLOSING and queues the close
 * work, which goes in this order:
 *
 *   1. pass through path.setup: whoever was accepting or processing INFO_REQ is
 *      done, whoever comes later sees CLOSING
 *   2. stop the heartbeat and the handshake timer; no new operations
 *   3. disconnect and drain all connections: no completion handler runs any
 *      more, the device touches none of our memory
 *   4. end what only waited: held requests, copies of requests behind an
 *      earlier operation, for a spare buffer, parked responses, invalidations
 *      without completion
 *   5. wait for the user's operations; their answers are discarded; regions go,
 *      so that other paths of the session need not wait any longer
 *   6. remove the directory in sysfs; tell the user if this was the last path
 *   7. queue pairs, domain, CM ids
 *   8. CLOSED; out of the session's list, and the session out of the server's
 *      if that was its last path; give the device back
 *
 * CM events find their connection by cm_id->context.  They stop with
 * rtrs_conn_destroy_id() in step 7, hence a connection is freed right after it.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/bitmap.h>
#include <linux/log2.h>
#include <linux/mm.h>
#include <linux/slab.h>

#include "server.h"
#include "trace.h"

/* Credits make a short send queue safe, but it should hold a few responses. */
#define IO_SEND_WR_MIN		64U
/* With those for draining 2048; devices round up to a power of two. */
#define IO_SEND_WR_MAX		2046U
/* What the device's driver takes, bytes; soft-RoCE's, the largest known */
#define SEND_WR_CLAIM		224U
#define SGE_CLAIM		16U
#define RECV_WR_CLAIM		128U
#define CQE_CLAIM		128U
#define MR_CLAIM		1024U

/**
 * server_path_move() - change the state
 * @path:	the path, its lock is held
 * @to:		new state
 *
 * Return: whether that is a legal move; if not, nothing changed.
 */
bool server_path_move(struct server_path *path, enum server_path_state to)
{
	enum server_path_state from = path->state;

	lockdep_assert_held(&path->lock);
	if (!server_path_may(from, to))
		return false;
	/* Whoever sees CONNECTED sees all that was set up before. */
	smp_store_release(&path->state, to);
	wake_up(&path->wait);
	trace_rtrs_server_state(path, from, to);
	return true;
}

/**
 * server_path_close() - begin to close a path
 * @path:	the path
 * @why:	for the log
 *
 * Context: any.
 */
void server_path_close(struct server_path *path, const char *why)
{
	unsigned long flags;
	bool first;

	spin_lock_irqsave(&path->lock, flags);
	first = server_path_move(path, SERVER_CLOSING);
	spin_unlock_irqrestore(&path->lock, flags);
	if (!first)
		return;
	path_info(path, "closing: %s\n", why);
	/* From here on the path may be gone at any time. */
	queue_work(server_path_wq, &path->close_work);
}

void server_path_get(struct server_path *path)
{
	kref_get(&path->ref);
}

static void path_release(struct kref *ref)
{
	struct server_path *path = container_of(ref, struct server_path, ref);
	struct rtrs_server_session *sess = path->sess;

	percpu_ref_exit(&path->users);
	free_percpu(path->stats);
	kvfree(path->conns);
	bitmap_free(path->alt_ids);
	mutex_destroy(&path->setup);
	kfree(path);
	server_session_put(sess);
}

void server_path_put(struct server_path *path)
{
	kref_put(&path->ref, path_release);
}

/*
 * Connections
 */

static void conn_error(struct rtrs_conn *base, const char *what, int err)
{
	struct server_conn *conn = container_of(base, struct server_conn, base);

	server_path_close(conn->path, what);
}

static void conn_sent(struct rtrs_conn *base)
{
	struct server_conn *conn = container_of(base, struct server_conn, base);

	atomic_inc(&conn->room);
	/* Pairs with the barrier in server_conn_resume(). */
	smp_mb__after_atomic();
	if (!list_empty_careful(&conn->parked))
		server_conn_resume(conn);
	/* A probe may have found no room. */
	if (unlikely(READ_ONCE(conn->path->suspect)))
		server_path_probe(conn->path);
}

static const struct rtrs_conn_ops conn_ops = {
	.error	= conn_error,
	.sent	= conn_sent,
};

static u32 recv_wrs(const struct rtrs_server_session *sess, u16 cid)
{
	return cid ? sess->depth : SERVICE_RECV_WR;
}

static u32 send_wrs(const struct rtrs_server_session *sess, u16 cid)
{
	if (!cid)
		return SERVICE_SEND_WR;
	return clamp((sess->always_invalidate ? 5 : 3) * sess->depth,
		     IO_SEND_WR_MIN, IO_SEND_WR_MAX);
}

/* Scatter entries that a buffer in few pieces needs */
static u32 send_sges(const struct rtrs_server_session *sess,
		     const struct ib_device_attr *attr)
{
	u32 pages = DIV_ROUND_UP(sess->max_io_size, PAGE_SIZE);

	return min3(pages, SERVER_MAX_SGE, (u32)attr->max_send_sge);
}

static struct server_conn *conn_create(struct server_path *path, u16 cid,
				       struct rdma_cm_id *cm_id)
{
	struct rtrs_server_session *sess = path->sess;
	const struct ib_device_attr *attr = &cm_id->device->attrs;
	struct rtrs_conn_params p = {
		.pd		= path->dom->base.pd,
		.poll_ctx	= IB_POLL_WORKQUEUE,
		/* There are many service connections, each with little to do. */
		.comp_vector	= cid - 1,
	};
	struct server_conn *conn;
	u32 max_wr;
	int err;

	conn = kzalloc_node(sizeof(*conn), GFP_KERNEL,
			    ibdev_to_node(cm_id->device));
	if (!conn)
		return ERR_PTR(-ENOMEM);
	rtrs_conn_init(&conn->base, &conn_ops, cid);
	conn->base.cm_id = cm_id;
	conn->base.met = true;
	conn->path = path;
	conn->recv_cqe.done = server_recv_done;
	spin_lock_init(&conn->park_lock);
	INIT_LIST_HEAD(&conn->parked);

	/* Both queues share a completion queue. */
	max_wr = min(attr->max_qp_wr, attr->max_cqe / 2) - 2;
	conn->nr_recv = min(recv_wrs(sess, cid), max_wr - 1);
	p.max_recv_wr = conn->nr_recv + 1;
	p.max_send_wr = min(send_wrs(sess, cid), max_wr);
	conn->max_sge = cid ? send_sges(sess, attr) : 1;
	p.max_send_sge = conn->max_sge;
	err = rtrs_conn_create(&conn->base, &p);
	if (err) {
		kfree(conn);
		return ERR_PTR(err);
	}
	return conn;
}

static void conns_stop(struct server_path *path)
{
	u16 cid;

	for (cid = 0; cid < path->cid_num; cid++)
		if (path->conns[cid])
			rtrs_conn_disconnect(&path->conns[cid]->base);
	for (cid = 0; cid < path->cid_num; cid++)
		if (path->conns[cid])
			rtrs_conn_drain(&path->conns[cid]->base);
}

static void conns_destroy(struct server_path *path)
{
	u16 cid;

	for (cid = 0; cid < path->cid_num; cid++)
		if (path->conns[cid])
			rtrs_conn_destroy(&path->conns[cid]->base);
	if (path->dom)
		rtrs_domain_put(&path->dom->base);
	path->dom = NULL;
	for (cid = 0; cid < path->cid_num; cid++) {
		struct server_conn *conn = path->conns[cid];

		if (!conn)
			continue;
		rtrs_conn_destroy_id(&conn->base);
		path->conns[cid] = NULL;
		kfree(conn);
		server_path_put(path);
	}
}

static int send_accept(struct server_path *path, struct rdma_cm_id *cm_id)
{
	struct rtrs_server_session *sess = path->sess;
	struct rtrs_wire_conn_rsp msg;
	struct rtrs_conn_rsp rsp = {
		.queue_depth	= sess->depth,
		.max_io_size	= sess->max_io_size,
		.max_hdr_size	= SERVER_HDR_SIZE,
		.new_rkey	= sess->always_invalidate,
	};
	struct rdma_conn_param param = {
		.rnr_retry_count	= 7,
		.private_data		= &msg,
		.private_data_len	= sizeof(msg),
	};

	rtrs_conn_rsp_encode(&msg, &rsp);
	return rdma_accept(cm_id, &param);
}

/*
 * A later attempt for a path that we believe to be alive: the client has given
 * it up.  It is refused now, but the next one need not wait until we notice.
 */
static bool starts_over(struct server_path *path,
			const struct rdma_cm_id *cm_id,
			const struct rtrs_conn_req *req)
{
	return path->nr_conns && (s16)(req->recon_cnt - path->recon_cnt) > 0 &&
	       rtrs_addr_equal(&path->client, &cm_id->route.addr.dst_addr);
}

static int get_domain(struct server_path *path, struct ib_device *dev)
{
	struct rtrs_domain *dom;

	if (path->dom)
		return 0;
	dom = rtrs_domain_get(&path->sess->domains, dev);
	if (IS_ERR(dom))
		return PTR_ERR(dom);
	path->dom = container_of(dom, struct server_domain, base);
	return 0;
}

/* Wait for the client's next step, but not for ever. */
static void expect_more(struct server_path *path)
{
	long left = path->deadline - jiffies;

	mod_delayed_work(server_wq, &path->handshake,
			 clamp_t(long, left, 0,
				 msecs_to_jiffies(SERVER_HANDSHAKE_MS)));
}

/* All connections of a path lead from one address to one, over one device. */
static bool belongs(const struct server_path *path,
		    const struct rdma_cm_id *cm_id)
{
	const struct rdma_addr *addr = &cm_id->route.addr;

	return cm_id->device == path->sdev->dev &&
	       rtrs_addr_equal(&path->client, &addr->dst_addr) &&
	       rtrs_addr_equal(&path->server, &addr->src_addr);
}

static int add_conn(struct server_path *path, struct rdma_cm_id *cm_id,
		    const struct rtrs_conn_req *req)
{
	struct server_conn *conn;
	int err = get_domain(path, cm_id->device);

	if (err)
		return err;
	conn = conn_create(path, req->cid, cm_id);
	if (IS_ERR(conn))
		return PTR_ERR(conn);
	/* From here on the CM id is the path's, which lives until it is gone. */
	server_path_get(path);
	cm_id->context = conn;
	path->conns[req->cid] = conn;
	path->nr_conns++;
	path->recon_cnt = req->recon_cnt;
	return 0;
}

/* Rules 8 and 10 of the specification; the setup lock is held. */
static int accept_locked(struct server_path *path, struct rdma_cm_id *cm_id,
			 const struct rtrs_conn_req *req)
{
	int err;

	if (starts_over(path, cm_id, req))
		server_path_close(path, "the client starts over");
	if (READ_ONCE(path->state) >= SERVER_CLOSING)
		return -EBUSY;
	if (READ_ONCE(path->state) != SERVER_CONNECTING ||
	    req->cid_num != path->cid_num || path->conns[req->cid] ||
	    !belongs(path, cm_id))
		return -ECONNRESET;

	err = add_conn(path, cm_id, req);
	if (err) {
		path_err(path, "no queue pair for connection %u: %d\n",
			 req->cid, err);
		server_path_close(path, "a connection could not be created");
		return err;
	}
	expect_more(path);
	if (!req->cid)
		err = server_info_post(path);
	if (!err)
		err = send_accept(path, cm_id);
	if (err) {
		path_err(path, "accepting connection %u failed: %d\n",
			 req->cid, err);
		server_path_close(path, "a connection could not be accepted");
	}
	return 0;
}

/**
 * server_path_accept() - take a connection that the client asks for
 * @path:	the path
 * @cm_id:	the connection's CM id, not accepted yet
 * @req:	the checked request
 *
 * Context: process context, sleeps; not from a handler of @cm_id.
 * Return: 0: @cm_id belongs to the path, even if it is closing already; else
 * the errno to reject with, the caller gets rid of @cm_id.  -EBUSY: the path is
 * closing, or INFO is being processed; what it was asked for may succeed later.
 */
int server_path_accept(struct server_path *path, struct rdma_cm_id *cm_id,
		       const struct rtrs_conn_req *req)
{
	int err;

	/* What INFO_REQ has to wait for may take longer than a knock may. */
	if (!mutex_trylock(&path->setup))
		return -EBUSY;
	rdma_lock_handler(cm_id);
	err = accept_locked(path, cm_id, req);
	rdma_unlock_handler(cm_id);
	mutex_unlock(&path->setup);
	return err;
}

/*
 * Beginning and end
 */

static void handshake_work(struct work_struct *work)
{
	struct server_path *path = container_of(work, struct server_path,
						handshake.work);

	if (READ_ONCE(path->state) == SERVER_CONNECTING)
		server_path_close(path, "the client did not finish its handshake");
}

static void close_work(struct work_struct *work)
{
	struct server_path *path = container_of(work, struct server_path,
						close_work);
	struct rtrs_server_session *sess = path->sess;
	struct rtrs_server *srv = sess->srv;

	mutex_lock(&path->setup);
	mutex_unlock(&path->setup);

	rtrs_hb_stop(&path->hb);
	cancel_delayed_work_sync(&path->handshake);
	percpu_ref_kill(&path->users);

	conns_stop(path);
	server_fence_leave(path);
	cancel_delayed_work_sync(&path->info_work);

	/* The session may have no memory yet. */
	if (path->is_up)
		server_op_abort(path);
	wait_for_completion(&path->unused);
	if (path->is_up)
		server_spare_release(path);
	server_info_free(path);
	server_mr_free(path);
	server_fence_kick(sess);

	server_sysfs_remove(path);
	server_session_down(path);
	conns_destroy(path);

	spin_lock_irq(&path->lock);
	server_path_move(path, SERVER_CLOSED);
	spin_unlock_irq(&path->lock);

	mutex_lock(&srv->lock);
	list_del(&path->entry);
	server_unclaim(srv, &path->claimed, path->claimed);
	if (!--sess->nr_paths)
		server_session_unlink(sess);
	mutex_unlock(&srv->lock);
	server_dev_put(path->sdev);
	server_path_put(path);
}

static void path_unused(struct percpu_ref *ref)
{
	complete(&container_of(ref, struct server_path, users)->unused);
}

static void path_init(struct server_path *path, struct rdma_cm_id *cm_id,
		      const struct rtrs_conn_req *req)
{
	kref_init(&path->ref);
	memcpy(path->uuid, req->path_uuid, RTRS_UUID_LEN);
	path->cid_num = req->cid_num;
	path->client = cm_id->route.addr.dst_addr;
	path->server = cm_id->route.addr.src_addr;
	rtrs_addr_format_path(&path->client, &path->server, path->label,
			      sizeof(path->label));
	path->port_num = cm_id->port_num;
	mutex_init(&path->setup);
	spin_lock_init(&path->lock);
	path->state = SERVER_CONNECTING;
	init_waitqueue_head(&path->wait);
	init_completion(&path->unused);
	init_completion(&path->kobj_released);
	INIT_WORK(&path->close_work, close_work);
	INIT_DELAYED_WORK(&path->info_work, server_info_work);
	INIT_DELAYED_WORK(&path->handshake, handshake_work);
	server_fence_init(path);
	rtrs_hb_init(&path->hb, &server_hb_ops,
		     max(READ_ONCE(server_hb_interval_ms), 100U),
		     READ_ONCE(server_hb_max_missed));
}

static int path_alloc(struct server_path *path)
{
	path->conns = kvcalloc(path->cid_num, sizeof(*path->conns), GFP_KERNEL);
	path->stats = alloc_percpu(struct server_stats);
	if (!path->conns || !path->stats)
		return -ENOMEM;
	return percpu_ref_init(&path->users, path_unused, 0, GFP_KERNEL);
}

/* What a connection costs: rings with room for draining, all powers of two */
static u64 conn_claim(const struct rtrs_server_session *sess, u16 cid)
{
	u64 send = roundup_pow_of_two(send_wrs(sess, cid) + 2);
	u64 recv = roundup_pow_of_two(recv_wrs(sess, cid) + 3);
	u64 wr = roundup_pow_of_two(SEND_WR_CLAIM + SGE_CLAIM *
				    (cid ? SERVER_MAX_SGE : 1));

	return send * wr + recv * RECV_WR_CLAIM + (send + recv) * CQE_CLAIM;
}

/* What a path costs besides the session's memory; see memory.c */
static u64 path_claim(const struct rtrs_server_session *sess, u16 cid_num)
{
	u64 bytes = conn_claim(sess, 0) +
		    (u64)(cid_num - 1) * conn_claim(sess, 1);

	return bytes + (u64)sess->depth *
	       (sess->chunk_size / SERVER_MR_PAGE * sizeof(u64) + MR_CLAIM);
}

/**
 * server_path_create() - create a path and put it into its session's list
 * @sess:	the session; its server is locked
 * @sdev:	the device the request came over
 * @cm_id:	the connection that asked for it
 * @req:	the checked request
 *
 * Context: process context, sleeps.
 * Return: the path, with a reference for the caller, or an ERR_PTR: -ENOMEM:
 * no memory, or more than clients may claim; -EOPNOTSUPP: the device cannot
 * register a chunk.
 */
struct server_path *server_path_create(struct rtrs_server_session *sess,
				       struct server_dev *sdev,
				       struct rdma_cm_id *cm_id,
				       const struct rtrs_conn_req *req)
{
	struct server_path *path;
	int err;

	lockdep_assert_held(&sess->srv->lock);
	path = kzalloc(sizeof(*path), GFP_KERNEL);
	if (!path)
		return ERR_PTR(-ENOMEM);
	path_init(path, cm_id, req);
	kref_get(&sess->ref);
	path->sess = sess;
	err = server_mr_layout(path, cm_id->device);
	if (!err)
		err = path_alloc(path);
	if (!err)
		err = server_claim(sess->srv, &path->claimed,
				   path_claim(sess, req->cid_num));
	if (err) {
		server_path_put(path);
		return ERR_PTR(err);
	}
	kref_get(&sdev->ref);
	path->sdev = sdev;
	server_path_get(path);
	list_add_tail(&path->entry, &sess->paths);
	sess->nr_paths++;
	/* Whoever asked for it may give up before it has a connection. */
	path->deadline = jiffies + msecs_to_jiffies(SERVER_CONNECT_MS) *
				   DIV_ROUND_UP(path->cid_num, 1024);
	expect_more(path);
	return path;
}
