// SPDX-License-Identifier: GPL-2.0
/*
 * Connection requests: which path they are for, and whether there is room.
 *
 * A request arrives in the CM's handler, which all clients share.  There it is
 * only checked; a *knock* takes it over: a work that may allocate queue pairs,
 * and comes again for a moment if the path which the request replaces is still
 * there.  The knock owns the CM id until a path has taken it
 * (server_path_accept() returned 0), or rejects the request with its errno and
 * destroys the id.  Events of the id meanwhile find the listening server as its
 * context and are ignored; what the knock does next notices that the client is
 * gone.
 *
 * Knocks are bounded in number and in time, hold no reference but the CM id's
 * to the device, and server_knocks_end() waits for them.
 *
 * A client that has lost a path may come back before we know.  A request for a
 * known path with a higher count of attempts proves it: the old path is closed
 * at once.  It can take the new one's place as soon as its operations have
 * ended; that is waited for, but not for long, because the user's disks may hang.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/mm.h>
#include <linux/slab.h>
#include <rdma/ib_cm.h>

#include "server.h"
#include "trace.h"

/* Connection requests being worked on */
#define MAX_KNOCKS	1024
/* A path that is busy is tried again after so long. */
#define KNOCK_AGAIN	max(HZ / 20, 1)

/**
 * struct knock - a connection request
 * @work:	tries to find it a path
 * @srv:	the listening user
 * @cm_id:	its id
 * @end:	until when it may be tried, jiffies
 * @req:	what it asks for
 */
struct knock {
	struct delayed_work	work;
	struct rtrs_server	*srv;
	struct rdma_cm_id	*cm_id;
	unsigned long		end;
	struct rtrs_conn_req	req;
};

static struct server_path *find_path(struct rtrs_server_session *sess,
				     const u8 *uuid)
{
	struct server_path *path;

	list_for_each_entry(path, &sess->paths, entry)
		if (!memcmp(path->uuid, uuid, RTRS_UUID_LEN))
			return path;
	return NULL;
}

/*
 * A path with the addresses of another one.  That one may be on its way out; if
 * not, make sure that the client still has it.
 */
static int same_addresses(struct server_path *other)
{
	if (READ_ONCE(other->state) >= SERVER_CLOSING)
		return -EBUSY;
	server_path_doubt(other);
	return -EEXIST;
}

/* Rule 9: may the session have this path? */
static int may_add_path(struct rtrs_server_session *sess,
			const struct rdma_cm_id *cm_id,
			const struct rtrs_conn_req *req)
{
	const struct rdma_addr *addr = &cm_id->route.addr;
	struct server_path *path;

	list_for_each_entry(path, &sess->paths, entry)
		if (rtrs_addr_equal(&path->client, &addr->dst_addr) &&
		    rtrs_addr_equal(&path->server, &addr->src_addr))
			return same_addresses(path);
	if (sess->nr_paths >= READ_ONCE(server_max_paths) ||
	    sess->nr_paths >= RTRS_MAX_PATHS ||
	    req->cid_num > READ_ONCE(server_max_conns))
		return -EMLINK;
	return 0;
}

static struct server_path *new_path(struct rtrs_server_session *sess,
				    struct rdma_cm_id *cm_id,
				    const struct rtrs_conn_req *req)
{
	struct server_dev *sdev = server_dev_find(sess->srv, cm_id->device);
	int err;

	if (!sdev)
		return ERR_PTR(-ENXIO);
	err = may_add_path(sess, cm_id, req);
	return err ? ERR_PTR(err) : server_path_create(sess, sdev, cm_id, req);
}

/* Rules 6 to 9: the path a request is for, with a reference */
static struct server_path *path_for(struct rtrs_server *srv,
				    struct rdma_cm_id *cm_id,
				    const struct rtrs_conn_req *req)
{
	struct rtrs_server_session *sess;
	struct server_path *path;

	lockdep_assert_held(&srv->lock);
	if (srv->closing)
		return ERR_PTR(-ENXIO);
	sess = server_session_find(srv, req->session_uuid);
	if (!sess && !req->first_conn)
		return ERR_PTR(-ENXIO);
	if (!sess)
		sess = server_session_create(srv, req->session_uuid);
	if (IS_ERR(sess))
		return ERR_CAST(sess);

	path = find_path(sess, req->path_uuid);
	if (path)
		server_path_get(path);
	else
		path = new_path(sess, cm_id, req);
	if (!sess->nr_paths)
		server_session_unlink(sess);
	server_session_put(sess);
	return path;
}

/* One try */
static int admit(const struct knock *k)
{
	struct rtrs_server *srv = k->srv;
	struct server_path *path;
	int err;

	mutex_lock(&srv->lock);
	path = path_for(srv, k->cm_id, &k->req);
	mutex_unlock(&srv->lock);
	if (IS_ERR(path))
		return PTR_ERR(path);
	err = server_path_accept(path, k->cm_id, &k->req);
	server_path_put(path);
	return err;
}

static const char *reason(int err)
{
	switch (err) {
	case -EUSERS:
		return "there are as many sessions as max_sessions allows";
	case -EMLINK:
		return "more paths or connections than max_paths and max_connections allow";
	case -ENOMEM:
		return "no memory, or more than max_memory allows";
	case -EBUSY:
		return "the path it replaces still has operations, or awaits INFO";
	case -EEXIST:
		return "another path has the same addresses";
	case -ENXIO:
		return "unknown session, or the server stops";
	case -EOPNOTSUPP:
		return "the device cannot register a chunk";
	default:
		return "against the protocol, or a failing device";
	}
}

static void reject(struct rdma_cm_id *cm_id, int err)
{
	struct rtrs_conn_rsp rsp = { .error = err };
	struct rtrs_wire_conn_rsp msg;

	rtrs_conn_rsp_encode(&msg, &rsp);
	rdma_reject(cm_id, &msg, sizeof(msg), IB_CM_REJ_CONSUMER_DEFINED);
}

static void knock_gone(struct rtrs_server *srv)
{
	if (atomic_dec_and_test(&srv->knocks))
		wake_up_var(&srv->knocks);
}

static void knock_work(struct work_struct *work)
{
	struct knock *k = container_of(work, struct knock, work.work);
	struct rtrs_server *srv = k->srv;
	char from[RTRS_ADDR_STRLEN];
	int err;

	/* Once it is admitted the id is the path's. */
	rtrs_addr_format(&k->cm_id->route.addr.dst_addr, from, sizeof(from));
	err = admit(k);
	if (err == -EBUSY && time_before(jiffies, k->end)) {
		queue_delayed_work(server_connect_wq, &k->work, KNOCK_AGAIN);
		return;
	}
	trace_rtrs_server_connect(from, &k->req, err);
	if (err) {
		pr_info_ratelimited("connection %u from %s, attempt %u, refused: %s (%d)\n",
				    k->req.cid, from, k->req.recon_cnt,
				    reason(err), err);
		reject(k->cm_id, err);
		rdma_destroy_id(k->cm_id);
	}
	kfree(k);
	knock_gone(srv);
}

static struct knock *knock_create(struct rtrs_server *srv)
{
	struct knock *k = NULL;

	if (atomic_inc_return(&srv->knocks) <= MAX_KNOCKS)
		k = kzalloc(sizeof(*k), GFP_KERNEL);
	if (!k)
		knock_gone(srv);
	return k;
}

/**
 * server_knocks_end() - wait until all connection requests are answered
 * @srv:	the listening user, which does not listen any more
 *
 * Context: process context, sleeps.
 */
void server_knocks_end(struct rtrs_server *srv)
{
	wait_var_event(&srv->knocks, !atomic_read(&srv->knocks));
	/* The last lines of the last one */
	flush_workqueue(server_connect_wq);
}

/**
 * server_knock() - a client asks for a connection
 * @srv:	the listening user, context of @cm_id
 * @cm_id:	new CM id
 * @param:	what came with the request
 *
 * Context: handler of @cm_id.
 * Return: 0: @cm_id is taken over; else it has been rejected, and the caller
 * returns the errno to the CM, which then destroys it.
 */
int server_knock(struct rtrs_server *srv, struct rdma_cm_id *cm_id,
		 const struct rdma_conn_param *param)
{
	char from[RTRS_ADDR_STRLEN];
	struct rtrs_conn_req req;
	struct knock *k;
	int err;

	rtrs_addr_format(&cm_id->route.addr.dst_addr, from, sizeof(from));
	err = rtrs_conn_req_decode(param->private_data, param->private_data_len,
				   &req);
	if (err) {
		pr_info_ratelimited("connection request from %s refused: %s\n",
				    from, err == -EPROTO ?
				    "foreign magic or version" : "malformed");
		err = -ECONNRESET;
		goto refuse;
	}
	k = knock_create(srv);
	if (!k) {
		pr_info_ratelimited("connection request from %s refused: too many at a time\n",
				    from);
		err = -EBUSY;
		goto refuse;
	}
	k->srv = srv;
	k->cm_id = cm_id;
	k->req = req;
	k->end = jiffies + msecs_to_jiffies(SERVER_TAKEOVER_MS);
	INIT_DELAYED_WORK(&k->work, knock_work);
	queue_delayed_work(server_connect_wq, &k->work, 0);
	return 0;

refuse:
	reject(cm_id, err);
	return err;
}
