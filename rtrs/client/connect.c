// SPDX-License-Identifier: GPL-2.0
/*
 * Connecting a path and letting go of it.
 *
 * client_connect() runs in the task that holds the path's op_lock and does
 * everything that allocates or destroys.  The CM's handler only notes how far a
 * connection got and wakes that task, or reports an error; it never touches
 * queues, so the two cannot race.  Connections are made one after the other in
 * the order of their cid; the first one's answer brings the sizes.
 *
 * The service connection then carries the registration of the arena (once per
 * domain) and the INFO exchange.  All receives are posted before the path
 * becomes CONNECTED; a server that is faster waits (infinite RNR retry).
 *
 * Whatever a failed attempt leaves behind is taken away by the caller's
 * teardown, the same as for a path that was lost.
 */
#include <linux/slab.h>
#include <net/net_namespace.h>
#include <rdma/ib.h>
#include <rdma/ib_cm.h>

#include "client.h"
#include "trace.h"

/* A server on a working network confirms within milliseconds. */
#define FAREWELL_JIFFIES	(HZ / 2)

static u16 dst_port(const struct client_path *path)
{
	const struct sockaddr_storage *dst = &path->addr.dst;

	switch (dst->ss_family) {
	case AF_INET:
		return ntohs(((struct sockaddr_in *)dst)->sin_port);
	case AF_INET6:
		return ntohs(((struct sockaddr_in6 *)dst)->sin6_port);
	default:
		return be64_to_cpu(((struct sockaddr_ib *)dst)->sib_sid);
	}
}

static void clear_port(struct sockaddr_storage *ss)
{
	switch (ss->ss_family) {
	case AF_INET:
		((struct sockaddr_in *)ss)->sin_port = 0;
		break;
	case AF_INET6:
		((struct sockaddr_in6 *)ss)->sin6_port = 0;
		break;
	case AF_IB:
		((struct sockaddr_ib *)ss)->sib_sid = 0;
		((struct sockaddr_ib *)ss)->sib_sid_mask = 0;
		break;
	}
}

/*
 * Waiting
 */

static const char no_device[] =
	"this machine has no RDMA device at the address that leads to the server";

/* Why is the path not CONNECTING any more? */
static int connect_error(struct client_path *path)
{
	unsigned long flags;
	int err = -ECANCELED;

	spin_lock_irqsave(&path->lock, flags);
	if (path->state == CLIENT_CONNECTING_ERR)
		err = path->connect_err;
	spin_unlock_irqrestore(&path->lock, flags);
	return err;
}

/* Fail the attempt unless it has failed already; the first cause counts. */
#define fail(path, err, fmt, ...)					\
({									\
	client_path_error(path, err, fmt, ##__VA_ARGS__);		\
	connect_error(path);						\
})

static bool connecting(struct client_path *path)
{
	return client_path_get_state(path) == CLIENT_CONNECTING;
}

static int wait_result(struct client_path *path, long ret, const char *what)
{
	if (!connecting(path))
		return connect_error(path);
	if (ret < 0)
		return fail(path, ret, "interrupted while waiting for %s", what);
	if (!ret)
		return fail(path, -ETIMEDOUT, "no answer while waiting for %s",
			    what);
	return 0;
}

static long time_left(unsigned long deadline)
{
	return max_t(long, deadline - jiffies, 0);
}

/**
 * client_wait() - wait while a path is connecting
 * @path:	the path
 * @flag:	what for; whoever sets it wakes path->wait
 * @deadline:	until when, jiffies
 * @what:	the same in words
 *
 * Context: process context, sleeps; under the path's op_lock.
 * Return: 0, or why the attempt has failed.
 */
int client_wait(struct client_path *path, bool *flag, unsigned long deadline,
		const char *what)
{
	long ret;

	ret = wait_event_interruptible_timeout(path->wait, READ_ONCE(*flag) ||
					       !connecting(path),
					       time_left(deadline));
	return wait_result(path, ret, what);
}

static enum client_phase phase_of(const struct client_conn *conn)
{
	/* Pairs with the release in reached(): the answer is there, too. */
	return smp_load_acquire(&conn->phase);
}

static int wait_phase(struct client_conn *conn, enum client_phase phase,
		      unsigned long deadline, const char *what)
{
	struct client_path *path = conn->path;
	long ret;

	ret = wait_event_interruptible_timeout(path->wait,
					       phase_of(conn) >= phase ||
					       !connecting(path),
					       time_left(deadline));
	return wait_result(path, ret, what);
}

/*
 * Events of the CM
 */

static void reached(struct client_conn *conn, enum client_phase phase)
{
	/* Pairs with the acquire in phase_of(). */
	smp_store_release(&conn->phase, phase);
	wake_up(&conn->path->wait);
}

static void established(struct client_conn *conn,
			const struct rdma_conn_param *param)
{
	int err;

	err = rtrs_conn_rsp_decode(param->private_data, param->private_data ?
				   param->private_data_len : 0,
				   conn->base.cid == 0, &conn->rsp);
	switch (err) {
	case 0:
		reached(conn, CLIENT_PHASE_ESTABLISHED);
		break;
	case -EMSGSIZE:
	case -EPROTO:
		client_path_error(conn->path, -EPROTO,
				  "whoever listens on port %u does not speak this protocol or version",
				  dst_port(conn->path));
		break;
	case -EINVAL:
		client_path_error(conn->path, -EINVAL,
				  "the server announces sizes nobody can work with");
		break;
	default:
		client_path_error(conn->path, err,
				  "the server accepted the connection with an error");
	}
}

static void on_reject(struct client_conn *conn, struct rdma_cm_event *ev)
{
	struct client_path *path = conn->path;
	const void *data;
	u8 len = 0;

	data = rdma_consumer_reject_data(conn->base.cm_id, ev, &len);
	if (data) {
		client_path_error(path, rtrs_reject_decode(data, len),
				  "the server refused connection %u",
				  conn->base.cid);
		return;
	}
	if (ev->status == IB_CM_REJ_INVALID_SERVICE_ID) {
		client_path_error(path, -ECONNREFUSED,
				  "nobody listens on port %u", dst_port(path));
		return;
	}
	/* Its CM has just learned of our reboot; the session goes soon. */
	if (ev->status == IB_CM_REJ_STALE_CONN) {
		client_path_error(path, -EADDRINUSE,
				  "the server still had a connection with this machine");
		return;
	}
	client_path_error(path, -ECONNREFUSED, "connection %u was rejected: %s",
			  conn->base.cid,
			  rdma_reject_msg(conn->base.cm_id, ev->status));
}

static void disconnected(struct client_conn *conn)
{
	struct client_path *path = conn->path;

	/* There is no error in the INFO exchange: a server that objects closes. */
	if (READ_ONCE(path->info.waiting))
		client_path_error(path, -EADDRINUSE,
				  "the server closed the connection on hearing the session name, which is probably in use by another client");
	else
		client_path_error(path, -ECONNABORTED,
				  "connection %u was closed by the server",
				  conn->base.cid);
}

/*
 * Runs in the CM's work, before and after the path is connected.  Always keeps
 * the id: it is destroyed by client_release() alone.
 */
static int cm_handler(struct rdma_cm_id *cm_id, struct rdma_cm_event *ev)
{
	struct client_conn *conn = cm_id->context;
	struct client_path *path = conn->path;

	switch (ev->event) {
	case RDMA_CM_EVENT_ADDR_RESOLVED:
		reached(conn, CLIENT_PHASE_ADDR);
		break;
	case RDMA_CM_EVENT_ROUTE_RESOLVED:
		reached(conn, CLIENT_PHASE_ROUTE);
		break;
	case RDMA_CM_EVENT_ESTABLISHED:
		established(conn, &ev->param.conn);
		break;
	case RDMA_CM_EVENT_REJECTED:
		on_reject(conn, ev);
		break;
	case RDMA_CM_EVENT_ADDR_ERROR:
		if (ev->status == -ENODEV) {
			client_path_error(path, -ENODEV, "%s", no_device);
			break;
		}
		fallthrough;
	case RDMA_CM_EVENT_ROUTE_ERROR:
	case RDMA_CM_EVENT_UNREACHABLE:
		client_path_error(path, -EHOSTUNREACH,
				  "the server cannot be reached: %s, status %d",
				  rdma_event_msg(ev->event), ev->status);
		break;
	case RDMA_CM_EVENT_DISCONNECTED:
		disconnected(conn);
		reached(conn, CLIENT_PHASE_GONE);
		break;
	case RDMA_CM_EVENT_DEVICE_REMOVAL:
		conn->base.dev_gone = true;
		client_path_error(path, -ENODEV, "the RDMA device is removed");
		break;
	case RDMA_CM_EVENT_CONNECT_ERROR:
		client_path_error(path, -EIO,
				  "connection %u could not be set up here, status %d",
				  conn->base.cid, ev->status);
		break;
	default:
		client_path_error(path, -ECONNABORTED, "%s, status %d",
				  rdma_event_msg(ev->event), ev->status);
	}
	return 0;
}

/*
 * One connection
 */

/* The address chosen by routing must not make this path another one's twin. */
static int check_twin(struct client_path *path)
{
	path->twin = client_paths_twin(path, &path->src);
	if (path->twin)
		return fail(path, -EEXIST,
			    "the session has a path between these addresses");
	return 0;
}

/* First connection of an attempt: device and source address are known now. */
static int bind_device(struct client_conn *conn)
{
	struct client_path *path = conn->path;
	struct rdma_cm_id *cm_id = conn->base.cm_id;
	struct ib_device *dev = cm_id->device;
	struct rtrs_domain *dom;
	unsigned long flags;
	int err;

	path->src = cm_id->route.addr.src_addr;
	err = check_twin(path);
	if (err)
		return err;
	dom = rtrs_domain_get(&path->clt->domains, dev);
	if (IS_ERR(dom))
		return fail(path, PTR_ERR(dom),
			    "no protection domain on device %s", dev->name);
	path->dom = container_of(dom, struct client_domain, base);
	path->max_sge = min_t(u32, dev->attrs.max_send_sge, CLIENT_SEND_SGE);
	spin_lock_irqsave(&path->lock, flags);
	strscpy(path->hca_name, dev->name, sizeof(path->hca_name));
	path->hca_port = cm_id->port_num;
	spin_unlock_irqrestore(&path->lock, flags);
	return 0;
}

static int resolve(struct client_conn *conn, unsigned long deadline)
{
	struct client_path *path = conn->path;
	const struct rtrs_addr *addr = &path->addr;
	bool ib = addr->dst.ss_family == AF_IB;
	struct sockaddr_storage *src = &path->src;
	struct rdma_cm_id *cm_id;
	int err;

	cm_id = rdma_create_id(&init_net, cm_handler, conn,
			       ib ? RDMA_PS_IB : RDMA_PS_TCP, IB_QPT_RC);
	if (IS_ERR(cm_id))
		return fail(path, PTR_ERR(cm_id), "no CM id");
	conn->base.cm_id = cm_id;
	err = rdma_set_reuseaddr(cm_id, 1);
	if (err)
		return fail(path, err, "source address cannot be shared");
	/* All connections of an attempt leave from one address and port. */
	err = rdma_resolve_addr(cm_id, src->ss_family == AF_UNSPEC ? NULL :
				(struct sockaddr *)src,
				(struct sockaddr *)&addr->dst,
				CLIENT_ADDR_TIMEOUT_MS);
	if (err)
		return fail(path, err, "%s", err == -ENODEV ? no_device :
			    "the address is impossible here");
	err = wait_phase(conn, CLIENT_PHASE_ADDR, deadline,
			 "the address of the server");
	if (!err && conn->base.cid == 0)
		err = bind_device(conn);
	return err;
}

static u32 recv_wanted(const struct client_conn *conn)
{
	const struct client_path *path = conn->path;
	u32 max = path->dom->base.dev->attrs.max_qp_wr - 2;

	if (conn->base.cid == 0)
		return min_t(u32, CLIENT_ADMIN_RECV, max);
	/* Two for each request: invalidation and answer */
	return min(2 * path->clt->nr_ids, max);
}

static u32 send_wanted(const struct client_conn *conn)
{
	const struct rtrs_client *clt = conn->path->clt;
	u32 wrs;

	if (conn->base.cid == 0)
		return CLIENT_ADMIN_SEND;
	/* A read registers, asks, invalidates; a write may need several. */
	wrs = max(3U, DIV_ROUND_UP(clt->max_segments + 1, clt->max_sge) + 1);
	return min_t(u32, clt->nr_tags, CLIENT_SQ_OPS) * wrs + 16;
}

static int create_queues(struct client_conn *conn)
{
	struct client_path *path = conn->path;
	u16 cid = conn->base.cid;
	struct rtrs_conn_params params = {
		.pd		= path->dom->base.pd,
		.poll_ctx	= cid > path->clt->nr_queues ? IB_POLL_DIRECT :
							       IB_POLL_SOFTIRQ,
		.comp_vector	= cid ? cid - 1 : 0,
		.max_send_sge	= path->max_sge,
	};
	int err;

	if (conn->base.cm_id->device != path->dom->base.dev)
		return fail(path, -ENODEV,
			    "connection %u leads to another RDMA device", cid);
	conn->nr_recv = recv_wanted(conn);
	params.max_send_wr = send_wanted(conn);
	/* The service connection also receives INFO_RSP. */
	params.max_recv_wr = conn->nr_recv + (cid == 0);
	err = rtrs_conn_create(&conn->base, &params);
	if (err)
		return fail(path, err,
			    "no queues for connection %u on device %s", cid,
			    conn->base.cm_id->device->name);
	return 0;
}

static int request_connection(struct client_conn *conn)
{
	struct client_path *path = conn->path;
	struct rtrs_wire_conn_req msg;
	struct rtrs_conn_req req = {
		.cid		= conn->base.cid,
		.cid_num	= path->nr_conns,
		.recon_cnt	= path->recon_cnt,
		.first_conn	= path->first_conn,
	};
	struct rdma_conn_param param = {
		.private_data		= &msg,
		.private_data_len	= sizeof(msg),
		.retry_count		= 7,
		.rnr_retry_count	= 7,
	};
	int err;

	if (rtrs_cm_link_lost(conn->base.cm_id))
		return fail(path, -EHOSTUNREACH,
			    "the network link of device %s is down",
			    path->dom->base.dev->name);
	memcpy(req.path_uuid, path->uuid, sizeof(req.path_uuid));
	memcpy(req.session_uuid, path->clt->uuid, sizeof(req.session_uuid));
	rtrs_conn_req_encode(&msg, &req);
	conn->base.met = true;
	err = rdma_connect(conn->base.cm_id, &param);
	return err ? fail(path, err, "connection %u could not be requested",
			  conn->base.cid) : 0;
}

static int connect_one(struct client_path *path, u32 cid)
{
	unsigned long deadline = jiffies + msecs_to_jiffies(CLIENT_WAIT_MS);
	struct client_conn *conn = path->conn[cid];
	int err;

	rtrs_conn_init(&conn->base, &client_conn_ops, cid);
	conn->phase = CLIENT_PHASE_NEW;
	err = resolve(conn, deadline);
	if (err)
		return err;
	err = create_queues(conn);
	if (err)
		return err;
	err = rdma_resolve_route(conn->base.cm_id, CLIENT_CM_TIMEOUT_MS);
	if (err)
		return fail(path, err, "no route to the server");
	err = wait_phase(conn, CLIENT_PHASE_ROUTE, deadline,
			 "a route to the server");
	if (err)
		return err;
	err = request_connection(conn);
	if (err)
		return err;
	return wait_phase(conn, CLIENT_PHASE_ESTABLISHED, deadline,
			  "the server to accept the connection");
}

/* The service connection is there: what did the server offer? */
static int take_offer(struct client_path *path)
{
	const struct rtrs_conn_rsp *rsp = &path->conn[0]->rsp;
	struct rtrs_client *clt = path->clt;
	int err;

	path->max_io_size = rsp->max_io_size;
	path->max_hdr_size = rsp->max_hdr_size;
	path->new_rkey = rsp->new_rkey;
	err = client_session_setup(clt, path, rsp);
	if (err)
		return fail(path, err, "the session cannot use this server");
	if (!path->chunk)
		path->chunk = kvcalloc(clt->depth, sizeof(*path->chunk),
				       GFP_KERNEL);
	if (!path->chunk || client_ids_add_path(path))
		return fail(path, -ENOMEM, "no memory for %u buffers",
			    clt->depth);
	err = client_domain_prepare(path->dom);
	if (err)
		return fail(path, err, "no memory or regions on device %s",
			    path->dom->base.dev->name);
	return 0;
}

/*
 * INFO exchange
 */

static void info_sent(struct ib_cq *cq, struct ib_wc *wc)
{
	struct client_path *path = container_of(wc->wr_cqe, struct client_path,
						info.tx_cqe);

	if (wc->status != IB_WC_SUCCESS) {
		client_path_error(path, -EIO, "session name not sent: %s",
				  ib_wc_status_msg(wc->status));
		return;
	}
	rtrs_conn_sent(&path->conn[0]->base);
	WRITE_ONCE(path->info.sent, true);
	wake_up(&path->wait);
}

static void info_received(struct ib_cq *cq, struct ib_wc *wc)
{
	struct client_path *path = container_of(wc->wr_cqe, struct client_path,
						info.rx_cqe);

	if (wc->status != IB_WC_SUCCESS) {
		/* Flushed: whatever broke the connection says why. */
		if (wc->status != IB_WC_WR_FLUSH_ERR)
			client_path_error(path, -EIO, "receive failed: %s",
					  ib_wc_status_msg(wc->status));
		return;
	}
	if (wc->wc_flags & IB_WC_WITH_INVALIDATE)
		client_domain_disarm(path->dom);
	if (wc->opcode != IB_WC_RECV ||
	    wc->wc_flags & (IB_WC_WITH_IMM | IB_WC_WITH_INVALIDATE)) {
		client_path_error(path, -EPROTO,
				  "the server sent something else than INFO_RSP");
		return;
	}
	path->info.len = wc->byte_len;
	/* Pairs with the wait for it: the length is there, too. */
	smp_store_release(&path->info.received, true);
	wake_up(&path->wait);
}

static int info_map(struct client_path *path)
{
	struct ib_device *dev = path->dom->base.dev;
	struct client_info *info = &path->info;

	if (!info->req)
		info->req = kzalloc(sizeof(*info->req), GFP_KERNEL);
	if (!info->rsp) {
		info->size = rtrs_info_rsp_size(path->clt->depth);
		info->rsp = kzalloc(info->size, GFP_KERNEL);
	}
	if (!info->req || !info->rsp)
		return -ENOMEM;
	rtrs_info_req_encode(info->req, path->clt->name);
	info->req_dma = ib_dma_map_single(dev, info->req, sizeof(*info->req),
					  DMA_TO_DEVICE);
	if (ib_dma_mapping_error(dev, info->req_dma))
		return -ENOMEM;
	info->rsp_dma = ib_dma_map_single(dev, info->rsp, info->size,
					  DMA_FROM_DEVICE);
	if (ib_dma_mapping_error(dev, info->rsp_dma)) {
		ib_dma_unmap_single(dev, info->req_dma, sizeof(*info->req),
				    DMA_TO_DEVICE);
		return -ENOMEM;
	}
	info->mapped = dev;
	return 0;
}

static void info_unmap(struct client_info *info)
{
	if (!info->mapped)
		return;
	ib_dma_unmap_single(info->mapped, info->req_dma, sizeof(*info->req),
			    DMA_TO_DEVICE);
	ib_dma_unmap_single(info->mapped, info->rsp_dma, info->size,
			    DMA_FROM_DEVICE);
	info->mapped = NULL;
}

static int info_post(struct client_path *path)
{
	struct client_info *info = &path->info;
	struct rtrs_conn *conn = &path->conn[0]->base;
	u32 lkey = path->dom->base.pd->local_dma_lkey;
	struct ib_sge rx = { info->rsp_dma, info->size, lkey };
	struct ib_sge tx = { info->req_dma, sizeof(*info->req), lkey };
	struct ib_recv_wr recv = {
		.wr_cqe = &info->rx_cqe, .sg_list = &rx, .num_sge = 1,
	};
	struct ib_send_wr send = {
		.wr_cqe = &info->tx_cqe, .sg_list = &tx, .num_sge = 1,
		.opcode = IB_WR_SEND, .send_flags = IB_SEND_SIGNALED,
	};
	int err;

	info->tx_cqe.done = info_sent;
	info->rx_cqe.done = info_received;
	info->sent = false;
	info->received = false;
	err = ib_post_recv(conn->qp, &recv, NULL);
	if (err)
		return err;
	WRITE_ONCE(info->waiting, true);
	return rtrs_conn_send(conn, &send, &send, 1, true);
}

static int info_exchange(struct client_path *path)
{
	unsigned long deadline = jiffies + msecs_to_jiffies(CLIENT_WAIT_MS);
	struct client_info *info = &path->info;
	int err;

	err = info_map(path) ?: info_post(path);
	if (err)
		return fail(path, err, "session name could not be sent");
	err = client_wait(path, &info->received, deadline,
			  "the server to take the session name") ?:
	      client_wait(path, &info->sent, deadline,
			  "the session name to be sent");
	if (err)
		return err;
	/* Unmapped: from now on nobody but us writes to it. */
	info_unmap(info);
	smp_rmb(); /* info->received before info->len */
	err = rtrs_info_rsp_decode(info->rsp, min_t(size_t, info->len,
						    info->size),
				   path->clt->depth,
				   path->max_io_size + path->max_hdr_size,
				   path->chunk);
	if (err)
		return fail(path, -EPROTO,
			    "the server's list of buffers is malformed (%d)",
			    err);
	return 0;
}

/*
 * The whole
 */

static int post_receives(struct client_path *path)
{
	u32 cid;
	int err;

	for (cid = 0; cid < path->nr_conns; cid++) {
		err = client_recv_alloc(path->conn[cid]);
		if (!err)
			err = client_recv_post_all(path->conn[cid]);
		if (err)
			return fail(path, err,
				    "receives of connection %u not posted",
				    cid);
	}
	return 0;
}

static int arm(struct client_path *path)
{
	int err = client_domain_arm(path->dom, path);

	return err ? fail(path, err, "memory could not be registered") : 0;
}

/* The server has accepted everything: be a part of the session. */
static int join(struct client_path *path)
{
	int err;

	if (path->addr.src.ss_family == AF_UNSPEC)
		clear_port(&path->src);
	err = client_path_settle(path);
	path->twin = err == -EEXIST;
	if (err)
		return fail(path, err, path->twin ?
			    "the session has a path between these addresses" :
			    "no memory to rename its directory");
	/* It lets us in again, so nothing of the old incarnation is left. */
	client_ids_release(path);
	err = client_path_up(path);
	if (err == -EAGAIN)
		return fail(path, err,
			    "another path came up or was lost meanwhile, once more");
	return err ? connect_error(path) : 0;
}

static void start_heartbeat(struct client_path *path)
{
	path->hb.interval_ms = max(READ_ONCE(client_hb_interval_ms), 100U);
	path->hb.max_missed = READ_ONCE(client_hb_max_missed);
	client_path_hb_first(path);
	rtrs_hb_start(&path->hb);
}

/**
 * client_connect() - one attempt to connect a path
 * @path:	CONNECTING, without connections
 *
 * Context: process context, sleeps up to 31 seconds for each connection;
 * under the path's op_lock; a signal ends it.
 * Return: 0: the path is CONNECTED; or the reason of the failure: it is
 * CONNECTING_ERR (or CLOSING) then and must be torn down.
 */
int client_connect(struct client_path *path)
{
	u32 cid;
	int err = 0;

	path->recon_cnt++;
	path->twin = false;
	path->src = path->addr.src;
	/*
	 * A server that does not know the session may make a new one only if
	 * no path is up: the user hears of that.
	 */
	path->first_conn = !READ_ONCE(path->clt->nr_up);
	path->losses = READ_ONCE(path->clt->losses);
	trace_rtrs_client_connect(path);
	for (cid = 0; cid < path->nr_conns && !err; cid++) {
		err = connect_one(path, cid);
		if (!err && cid == 0)
			err = take_offer(path);
	}
	err = err ?: arm(path);
	err = err ?: info_exchange(path);
	err = err ?: post_receives(path);
	/* From here on a closed connection is no objection to the name. */
	WRITE_ONCE(path->info.waiting, false);
	err = err ?: join(path);
	if (!err)
		start_heartbeat(path);
	trace_rtrs_client_connect_done(path, err);
	return err;
}

/**
 * client_disconnect() - end the traffic of a path
 * @path:	not CONNECTED and unseen by submitters; may have no connections
 *
 * When it returns no completion handler of the path runs any more and no
 * device touches its memory.
 *
 * Context: process context, sleeps; under the path's op_lock.
 */
void client_disconnect(struct client_path *path)
{
	u32 cid;

	for (cid = 0; cid < path->nr_conns; cid++)
		if (path->conn[cid]->base.cm_id)
			rtrs_conn_disconnect(&path->conn[cid]->base);
	for (cid = 0; cid < path->nr_conns; cid++)
		rtrs_conn_drain(&path->conn[cid]->base);
}

static bool all_gone(const struct client_path *path)
{
	u32 cid;

	for (cid = 0; cid < path->nr_conns; cid++)
		if (phase_of(path->conn[cid]) == CLIENT_PHASE_ESTABLISHED)
			return false;
	return true;
}

/**
 * client_await_farewell() - give the server a moment to notice the end of a path
 * @path:	disconnected
 *
 * A server confirms the end of a connection when it takes nothing more from it;
 * what had arrived there before, but was not looked at, then cannot be mistaken
 * for something new.  One that cannot be reached any more does not answer, and
 * looks at what it got long before the loss was noticed here.
 *
 * Context: process context, sleeps; under the path's op_lock.
 */
void client_await_farewell(struct client_path *path)
{
	wait_event_timeout(path->wait, all_gone(path), FAREWELL_JIFFIES);
}

/**
 * client_release() - destroy the connections of a path
 * @path:	disconnected, without requests; may have no connections
 *
 * Context: process context, sleeps; under the path's op_lock.
 */
void client_release(struct client_path *path)
{
	struct client_conn *conn;
	u32 cid;

	path->info.waiting = false;
	info_unmap(&path->info);
	for (cid = 0; cid < path->nr_conns; cid++) {
		conn = path->conn[cid];
		rtrs_conn_destroy(&conn->base);
		client_recv_free(conn);
		INIT_LIST_HEAD(&conn->inv_wait);
		conn->inv_pending = false;
	}
	if (path->dom)
		rtrs_domain_put(&path->dom->base);
	path->dom = NULL;
	/* Last: with its ids the CM gives a removed device up. */
	for (cid = 0; cid < path->nr_conns; cid++)
		rtrs_conn_destroy_id(&path->conn[cid]->base);
}
