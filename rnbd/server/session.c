// SPDX-License-Identifier: GPL-2.0
/*
 * A session: one client, its messages, its table of device ids.
 *
 * The transport creates it with connected() and ends it with disconnected(),
 * and guarantees that no operation is outstanding then. Everything that works
 * for the session is either an operation (and thus over by then) or an opening
 * (and thus waited for by disconnected()); so nobody counts references to it.
 *
 * Messages arrive in a completion worker that other sessions share, where
 * nobody may wait. IO goes through without leaving it (io.c). SESS_INFO is a
 * few bytes and is answered on the spot. CLOSE takes the opening out of the
 * table on the spot; what has to wait is done by the opening's own work, which
 * answers. OPEN may take as long as the device likes: OPENs are queued and
 * handled one by one by the session's work, so that one session holds up
 * nobody but itself.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/slab.h>
#include <linux/uio.h>

#include "compat/core.h"
#include "rnbd/server/server.h"

/**
 * rnbd_access_name() - access mode in words
 * @mode:	which
 *
 * Return: the name that sysfs and logs use.
 */
const char *rnbd_access_name(enum rnbd_access_mode mode)
{
	switch (mode) {
	case RNBD_ACCESS_RO:
		return "ro";
	case RNBD_ACCESS_RW:
		return "rw";
	case RNBD_ACCESS_MIGRATION:
		return "migration";
	}
	return "unknown";
}

/*
 * Answers are the data of a READ. More room than the answer needs is legal and
 * is zeroed: it is memory that may hold somebody else's data.
 */
static bool has_room(const struct rtrs_op *op, size_t len)
{
	return op->dir == RTRS_DIR_READ && op->data_len >= len;
}

static void respond_with(struct rtrs_op *op, const void *msg, size_t len)
{
	struct iov_iter iter;
	bool ok;

	iov_iter_bvec(&iter, ITER_DEST, op->bvec, op->nr_bvecs, op->data_len);
	ok = copy_to_iter(msg, len, &iter) == len;
	iov_iter_zero(op->data_len - len, &iter);
	rtrs_op_respond(op, ok ? 0 : -EIO);
}

static int handle_sess_info(struct rnbd_session *sess, struct rtrs_op *op)
{
	struct rnbd_wire_sess_info rsp;
	u8 version;
	int err;

	if (!has_room(op, sizeof(rsp)))
		return -EINVAL;
	err = rnbd_sess_info_decode(op->usr, op->usr_len, RNBD_MSG_SESS_INFO,
				    &version);
	if (err)
		return err;
	WRITE_ONCE(sess->version, version);
	rnbd_sess_info_encode(&rsp, RNBD_MSG_SESS_INFO_RSP, version);
	respond_with(op, &rsp, sizeof(rsp));
	return 0;
}

static int handle_close(struct rnbd_session *sess, struct rtrs_op *op)
{
	u32 id;
	int err;

	if (op->dir != RTRS_DIR_WRITE || op->data_len)
		return -EINVAL;
	err = rnbd_close_decode(op->usr, op->usr_len, &id);
	if (err)
		return err;
	return rnbd_opening_close_id(sess, id, op);
}

/*
 * A client that maps a device again after a reconnect gets the opening it has;
 * with another mode that would be a way around the access rules.
 */
static int open_device(struct rnbd_session *sess, const struct rnbd_open *req,
		       struct rnbd_open_rsp *rsp)
{
	struct rnbd_opening *o = rnbd_opening_get_by_name(sess, req->name);
	int err = 0;

	if (!o)
		return rnbd_opening_create(sess, req, rsp);

	if (o->mode == req->mode) {
		rnbd_export_describe(o->dev.bdev, rsp);
		rsp->device_id = o->id;
	} else {
		pr_err_ratelimited("%s: %s is already open %s, refused to open it %s\n",
				   sess->name, o->name,
				   rnbd_access_name(o->mode),
				   rnbd_access_name(req->mode));
		err = -EPERM;
	}
	rnbd_opening_put(o);
	return err;
}

static void answer_open(struct rnbd_session *sess, struct rtrs_op *op)
{
	struct rnbd_wire_open_rsp msg;
	struct rnbd_open_rsp rsp = {};
	struct rnbd_open req;
	int err;

	err = rnbd_open_decode(op->usr, op->usr_len, &req);
	if (err)
		pr_err_ratelimited("%s: malformed OPEN (%u bytes)\n",
				   sess->name, op->usr_len);
	else
		err = open_device(sess, &req, &rsp);
	if (err) {
		rtrs_op_respond(op, rnbd_wire_errno(err));
		return;
	}
	rnbd_open_rsp_encode(&msg, &rsp);
	respond_with(op, &msg, sizeof(msg));
}

static void open_work(struct work_struct *work)
{
	struct rnbd_session *sess = container_of(work, struct rnbd_session,
						 open_work);
	struct rnbd_server_op *p;

	for (;;) {
		spin_lock(&sess->open_lock);
		p = list_first_entry_or_null(&sess->open_ops,
					     struct rnbd_server_op, entry);
		if (p)
			list_del(&p->entry);
		spin_unlock(&sess->open_lock);
		if (!p)
			return;
		answer_open(sess, p->op);
	}
}

static int handle_open(struct rnbd_session *sess, struct rtrs_op *op)
{
	struct rnbd_server_op *p = rtrs_op_priv(op);

	if (!has_room(op, sizeof(struct rnbd_wire_open_rsp)))
		return -EINVAL;
	p->op = op;
	/* Unlocked, the operation may be answered and the session be gone. */
	spin_lock(&sess->open_lock);
	list_add_tail(&p->entry, &sess->open_ops);
	queue_work(rnbd_admin_wq, &sess->open_work);
	spin_unlock(&sess->open_lock);
	return 0;
}

/**
 * rnbd_session_request() - a message came, rtrs_server_ops.request
 * @priv:	the session
 * @op:		the operation that carries it
 *
 * Context: process context of a shared completion queue; does not wait.
 * Return: 0, the answer is or will be given; or the errno to answer.
 */
int rnbd_session_request(void *priv, struct rtrs_op *op)
{
	struct rnbd_session *sess = priv;
	int type = rnbd_msg_type(op->usr, op->usr_len);
	int err;

	switch (type) {
	case RNBD_MSG_IO:
		return rnbd_io_request(sess, op);
	case RNBD_MSG_OPEN:
		err = handle_open(sess, op);
		break;
	case RNBD_MSG_CLOSE:
		err = handle_close(sess, op);
		break;
	case RNBD_MSG_SESS_INFO:
		err = handle_sess_info(sess, op);
		break;
	default:
		err = -EINVAL;
		break;
	}
	/* On success the operation may be gone already. */
	if (err)
		pr_err_ratelimited("%s: refused a message of type %d (%u bytes, %s with %u bytes of data): %pe\n",
				   sess->name, type, op->usr_len,
				   op->dir == RTRS_DIR_READ ? "READ" : "WRITE",
				   op->data_len, ERR_PTR(err));
	return err;
}

/**
 * rnbd_session_connected() - a client came, rtrs_server_ops.connected
 * @rtrs:	the transport's session
 * @priv:	where the session is stored
 *
 * Return: 0 or -ENOMEM.
 */
int rnbd_session_connected(struct rtrs_server_session *rtrs, void **priv)
{
	struct rnbd_session *sess = kzalloc(sizeof(*sess), GFP_KERNEL);
	static atomic_t number;

	if (!sess)
		return -ENOMEM;
	/* By number: a session's name may be longer than that of a work queue. */
	sess->io_wq = alloc_workqueue("rnbd_server_io%u",
				      WQ_UNBOUND | WQ_MEM_RECLAIM,
				      WQ_MAX_ACTIVE, atomic_inc_return(&number));
	if (!sess->io_wq) {
		kfree(sess);
		return -ENOMEM;
	}
	strscpy(sess->name, rtrs_server_session_name(rtrs), sizeof(sess->name));
	xa_init_flags(&sess->devices, XA_FLAGS_ALLOC);
	INIT_LIST_HEAD(&sess->openings);
	spin_lock_init(&sess->open_lock);
	INIT_LIST_HEAD(&sess->open_ops);
	INIT_WORK(&sess->open_work, open_work);
	*priv = sess;
	return 0;
}

/**
 * rnbd_session_disconnected() - a client left, rtrs_server_ops.disconnected
 * @priv:	the session; gone when this returns
 *
 * Context: process context; waits for the session's openings to end.
 */
void rnbd_session_disconnected(void *priv)
{
	struct rnbd_session *sess = priv;

	/* It has answered its last message, but may not have returned yet. */
	flush_work(&sess->open_work);
	rnbd_opening_close_all(sess);
	destroy_workqueue(sess->io_wq);
	xa_destroy(&sess->devices);
	kfree(sess);
}
