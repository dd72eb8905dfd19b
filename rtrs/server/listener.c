// SPDX-License-Identifier: GPL-2.0
/*
 * The listener: RDMA devices come and go, clients knock.
 *
 * Two CM ids listen, one for IPv4 and IPv6, one for GIDs; they exist while there
 * is at least one RDMA device.  Each device has a server_dev from its arrival
 * to its removal.  The removal takes it out of the list, so that no new path
 * uses it, closes the paths it has and waits for them: when the callback
 * returns nothing of ours refers to the device.
 *
 * CM events of a connection arrive in the CM's handler, which may sleep but must
 * not wait for our own work.  Connection requests are handed over to connect.c;
 * once a path has taken a request's CM id, only the path's close work destroys
 * it.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/mm.h>
#include <linux/module.h>
#include <linux/slab.h>
#include <net/net_namespace.h>
#include <rdma/ib.h>

#include "server.h"

#define LISTEN_BACKLOG	64
#define LISTEN_AGAIN	(5 * HZ)

/* There is one user at a time. */
static DEFINE_MUTEX(the_lock);
static struct rtrs_server *the_server;

static int cm_event(struct rdma_cm_id *cm_id, struct rdma_cm_event *ev)
{
	struct server_conn *conn = cm_id->context;

	if (ev->event == RDMA_CM_EVENT_CONNECT_REQUEST)
		return server_knock(cm_id->context, cm_id, &ev->param.conn);
	/* Listeners see the removal of devices, knocks that the client left. */
	if (cm_id->context == READ_ONCE(the_server))
		return 0;

	switch (ev->event) {
	case RDMA_CM_EVENT_ESTABLISHED:
		break;
	case RDMA_CM_EVENT_DISCONNECTED:
	case RDMA_CM_EVENT_TIMEWAIT_EXIT:
		server_path_close(conn->path, "the client disconnected");
		break;
	case RDMA_CM_EVENT_DEVICE_REMOVAL:
		conn->base.dev_gone = true;
		fallthrough;
	default:
		/* Whatever else: this connection is of no use any more. */
		server_path_close(conn->path, rdma_event_msg(ev->event));
		break;
	}
	return 0;
}

/*
 * Listening
 */

static struct rdma_cm_id *listen_on(struct rtrs_server *srv,
				    struct sockaddr *addr,
				    enum rdma_ucm_port_space ps)
{
	struct rdma_cm_id *cm_id;
	int err;

	cm_id = rdma_create_id(&init_net, cm_event, srv, ps, IB_QPT_RC);
	if (IS_ERR(cm_id))
		return cm_id;
	/* IPv4 too, whatever the system's default for IPv6 sockets is */
	if (addr->sa_family == AF_INET6)
		rdma_set_afonly(cm_id, 0);
	err = rdma_bind_addr(cm_id, addr);
	if (!err)
		err = rdma_listen(cm_id, LISTEN_BACKLOG);
	if (err) {
		rdma_destroy_id(cm_id);
		return ERR_PTR(err);
	}
	return cm_id;
}

static int start_listening(struct rtrs_server *srv)
{
	struct sockaddr_in6 ip = {
		.sin6_family	= AF_INET6,
		.sin6_addr	= IN6ADDR_ANY_INIT,
		.sin6_port	= cpu_to_be16(srv->port),
	};
	struct sockaddr_ib ib = {
		.sib_family	= AF_IB,
		.sib_sid	= cpu_to_be64(RDMA_IB_IP_PS_IB | srv->port),
		.sib_sid_mask	= cpu_to_be64(U64_MAX),
		.sib_pkey	= cpu_to_be16(0xffff),
	};
	struct rdma_cm_id *cm_id;

	cm_id = listen_on(srv, (struct sockaddr *)&ip, RDMA_PS_TCP);
	if (IS_ERR(cm_id))
		return PTR_ERR(cm_id);
	srv->listen_ip = cm_id;
	cm_id = listen_on(srv, (struct sockaddr *)&ib, RDMA_PS_IB);
	if (IS_ERR(cm_id)) {
		rdma_destroy_id(srv->listen_ip);
		srv->listen_ip = NULL;
		return PTR_ERR(cm_id);
	}
	srv->listen_ib = cm_id;
	return 0;
}

/* Somebody else may have had the port when the device came. */
static void listen_work(struct work_struct *work)
{
	struct rtrs_server *srv = container_of(work, struct rtrs_server,
					       listen_work.work);

	mutex_lock(&srv->listen_lock);
	if (srv->listen_users && !srv->listen_ip) {
		srv->listen_err = start_listening(srv);
		if (srv->listen_err)
			queue_delayed_work(server_connect_wq, &srv->listen_work,
					   LISTEN_AGAIN);
		else
			pr_info("listening on port %u now\n", srv->port);
	}
	mutex_unlock(&srv->listen_lock);
}

static void stop_listening(struct rtrs_server *srv)
{
	if (!srv->listen_ip)
		return;
	rdma_destroy_id(srv->listen_ib);
	rdma_destroy_id(srv->listen_ip);
	srv->listen_ib = NULL;
	srv->listen_ip = NULL;
}

/*
 * Devices
 */

/**
 * server_dev_find() - look a device up
 * @srv:	the listening user, locked
 * @dev:	the device
 *
 * Return: the device, or NULL: it must not be used, or not any more.
 */
struct server_dev *server_dev_find(struct rtrs_server *srv,
				   const struct ib_device *dev)
{
	struct server_dev *sdev;

	lockdep_assert_held(&srv->lock);
	list_for_each_entry(sdev, &srv->devices, entry)
		if (sdev->dev == dev)
			return sdev;
	return NULL;
}

static void dev_unused(struct kref *ref)
{
	complete(&container_of(ref, struct server_dev, ref)->unused);
}

void server_dev_put(struct server_dev *sdev)
{
	kref_put(&sdev->ref, dev_unused);
}

static int cm_dev_add(struct ib_device *dev)
{
	struct rtrs_server *srv = the_server;
	struct server_dev *sdev;

	if (!(dev->attrs.device_cap_flags & IB_DEVICE_MEM_MGT_EXTENSIONS)) {
		pr_info("device %s not used: it has no memory registration by work request\n",
			dev_name(&dev->dev));
		return -EOPNOTSUPP;
	}
	sdev = kzalloc(sizeof(*sdev), GFP_KERNEL);
	if (!sdev)
		return -ENOMEM;
	sdev->dev = dev;
	kref_init(&sdev->ref);
	init_completion(&sdev->unused);

	mutex_lock(&srv->lock);
	list_add_tail(&sdev->entry, &srv->devices);
	mutex_unlock(&srv->lock);

	mutex_lock(&srv->listen_lock);
	srv->listen_users++;
	if (!srv->listen_ip)
		srv->listen_err = start_listening(srv);
	if (srv->listen_err) {
		pr_err("cannot listen on port %u: %d\n", srv->port,
		       srv->listen_err);
		queue_delayed_work(server_connect_wq, &srv->listen_work,
				   LISTEN_AGAIN);
	}
	mutex_unlock(&srv->listen_lock);

	ib_set_client_data(dev, &srv->client, sdev);
	return 0;
}

static void close_paths(struct rtrs_server *srv, struct server_dev *sdev)
{
	struct rtrs_server_session *sess;
	struct server_path *path;

	mutex_lock(&srv->lock);
	list_del(&sdev->entry);
	list_for_each_entry(sess, &srv->sessions, entry)
		list_for_each_entry(path, &sess->paths, entry)
			if (path->sdev == sdev)
				server_path_close(path, srv->closing ?
						  "the server stops" :
						  "the RDMA device goes away");
	mutex_unlock(&srv->lock);
}

static void cm_dev_remove(struct ib_device *dev, void *data)
{
	struct rtrs_server *srv = the_server;
	struct server_dev *sdev = data;

	mutex_lock(&srv->listen_lock);
	if (!--srv->listen_users)
		stop_listening(srv);
	mutex_unlock(&srv->listen_lock);

	close_paths(srv, sdev);
	server_dev_put(sdev);
	wait_for_completion(&sdev->unused);
	kfree(sdev);
}

/* There are no devices and no listeners any more, or never were. */
static void server_free(struct rtrs_server *srv)
{
	cancel_delayed_work_sync(&srv->listen_work);
	/* Late requests find nothing to connect to. */
	server_knocks_end(srv);
	WRITE_ONCE(the_server, NULL);
	/* The works of the last paths may still have their last lines to run. */
	flush_workqueue(server_path_wq);
	mutex_destroy(&srv->listen_lock);
	mutex_destroy(&srv->lock);
	kfree(srv);
}

static struct rtrs_server *server_start(const struct rtrs_server_ops *ops,
					u16 port)
{
	struct rtrs_server *srv;
	int err;

	if (the_server)
		return ERR_PTR(-EBUSY);
	srv = kzalloc(sizeof(*srv), GFP_KERNEL);
	if (!srv)
		return ERR_PTR(-ENOMEM);
	srv->ops = *ops;
	srv->port = port;
	mutex_init(&srv->lock);
	INIT_LIST_HEAD(&srv->sessions);
	INIT_LIST_HEAD(&srv->devices);
	mutex_init(&srv->listen_lock);
	INIT_DELAYED_WORK(&srv->listen_work, listen_work);
	srv->client.name = "rtrs_server";
	srv->client.add = cm_dev_add;
	srv->client.remove = cm_dev_remove;

	WRITE_ONCE(the_server, srv);
	err = ib_register_client(&srv->client);
	if (!err && srv->listen_users && srv->listen_err) {
		err = srv->listen_err;
		ib_unregister_client(&srv->client);
	}
	if (err) {
		server_free(srv);
		return ERR_PTR(err);
	}
	return srv;
}

/**
 * rtrs_server_open() - listen for clients
 * @ops:	what to do with their sessions and requests; copied
 * @port:	port for IP, and part of the service id for GIDs
 *
 * Listens as soon as there is an RDMA device.  There can be one user at a time.
 * Its callbacks may run before this function returns.
 *
 * Context: process context, sleeps.
 * Return: the server or an ERR_PTR: -EBUSY: there is a user already; -EINVAL:
 * @ops is incomplete; -ENOMEM; or the reason why it cannot listen, such as
 * -EADDRINUSE.
 */
struct rtrs_server *rtrs_server_open(const struct rtrs_server_ops *ops, u16 port)
{
	struct rtrs_server *srv;

	if (!ops->connected || !ops->disconnected || !ops->request ||
	    ops->max_usr_len > SERVER_HDR_SIZE)
		return ERR_PTR(-EINVAL);
	mutex_lock(&the_lock);
	srv = server_start(ops, port);
	mutex_unlock(&the_lock);
	return srv;
}
EXPORT_SYMBOL_GPL(rtrs_server_open);

/**
 * rtrs_server_close() - stop listening and close all sessions
 * @srv:	from rtrs_server_open()
 *
 * Waits until every operation has been answered and every session's
 * disconnected callback has returned.
 *
 * Context: process context, sleeps; not from a callback.
 */
void rtrs_server_close(struct rtrs_server *srv)
{
	mutex_lock(&the_lock);
	mutex_lock(&srv->lock);
	srv->closing = true;
	mutex_unlock(&srv->lock);
	/* Removes all devices from our view, and with them the paths. */
	ib_unregister_client(&srv->client);
	server_free(srv);
	mutex_unlock(&the_lock);
}
EXPORT_SYMBOL_GPL(rtrs_server_close);
