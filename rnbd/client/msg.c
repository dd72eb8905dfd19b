// SPDX-License-Identifier: GPL-2.0
/*
 * Messages about devices and sessions: SESS_INFO, OPEN, CLOSE.
 *
 * Like a block request a message needs a tag, because the tag is the buffer id
 * on the wire.  The last few tags of the session are kept out of the tag set
 * for messages.  A session too small for that takes them from the tag set, by
 * allocating block requests that are never started.  Nobody waits for anything
 * while holding a tag but the answer itself.  Of two tags one is for CLOSE
 * alone, which must get through while the server is slow to open something.
 *
 * Not the tag set's own reserved tags: their queue would count as one more
 * user that the block layer divides the tags among, for ever since it never
 * starts a request, and an unanswered message would stop it from freezing
 * that queue, which it does when the last disk goes.
 *
 * A message has one owner.  Until the answer arrives that is who sent it and
 * waits.  He may give up (signal, timeout, device unmapped); then the message
 * belongs to its completion, which leaves it to a work item.  Phase decides,
 * by one atomic exchange, who of the two was first.  So buffers live as long
 * as the transport can touch them, and an OPEN that succeeds after everybody
 * has left is undone.
 *
 * The completion runs in softirq or process context and takes no locks.  A
 * message about a device holds the device on its session's list; it is freed
 * in process context.  A message in flight also holds the session's memory.
 */
#include "rnbd/client/client.h"

#include <linux/jiffies.h>
#include <linux/rcupdate.h>
#include <linux/slab.h>

enum phase {
	PHASE_FLYING,
	PHASE_DONE,
	PHASE_ABANDONED,
};

struct rnbd_msg {
	struct rnbd_session	*sess;
	struct rnbd_dev		*dev;	/* NULL: about the session */
	atomic_t		phase;
	int			error;
	u32			epoch;	/* when it was sent, or must be sent */
	bool			bound;	/* means something only in @epoch */
	struct request		*rq;	/* owner of a tag of the tag set */
	struct rtrs_request	req;
	struct scatterlist	sg;
	struct work_struct	late;
	void			*rsp;	/* memory of its own: written by DMA */
	size_t			rsp_len;
	union {
		struct rnbd_wire_sess_info	info;
		struct rnbd_wire_open		open;
		struct rnbd_wire_close		close;
	} out;
};

static void rnbd_msg_late(struct work_struct *work);

static void rnbd_msg_free(struct rnbd_msg *msg)
{
	if (msg->dev)
		rnbd_dev_unhold(msg->dev);
	kfree(msg->rsp);
	kfree(msg);
}

/*
 * Tags
 */

static int rnbd_msg_get_tag(struct rnbd_msg *msg)
{
	struct rnbd_session *sess = msg->sess;
	unsigned int i = msg->rsp_len && sess->nr_msg_tags > 1 ? 1 : 0;
	struct request *rq;

	for (; i < sess->nr_msg_tags; i++) {
		if (test_and_set_bit_lock(i, &sess->msg_tags))
			continue;
		msg->req.tag = sess->lim.nr_tags - sess->nr_msg_tags + i;
		return 0;
	}
	if (sess->nr_msg_tags)
		return -EAGAIN;

	rq = blk_mq_alloc_request(sess->anchor_q,
				  msg->rsp_len ? REQ_OP_DRV_IN : REQ_OP_DRV_OUT,
				  BLK_MQ_REQ_NOWAIT);
	if (IS_ERR(rq))
		return PTR_ERR(rq);
	msg->rq = rq;
	msg->req.tag = rq->tag;
	return 0;
}

static void rnbd_msg_put_tag(struct rnbd_msg *msg)
{
	struct rnbd_session *sess = msg->sess;

	if (msg->rq)
		blk_mq_free_request(msg->rq);
	else
		clear_bit_unlock(msg->req.tag -
				 (sess->lim.nr_tags - sess->nr_msg_tags),
				 &sess->msg_tags);
	msg->rq = NULL;
	atomic_inc(&sess->events);
}

/*
 * Completion
 */

static void rnbd_msg_done(struct rtrs_request *req, int error)
{
	struct rnbd_msg *msg = container_of(req, struct rnbd_msg, req);
	struct rnbd_session *sess = msg->sess;

	msg->error = error;
	rnbd_msg_put_tag(msg);
	if (atomic_cmpxchg(&msg->phase, PHASE_FLYING, PHASE_DONE) ==
	    PHASE_ABANDONED) {
		if (msg->dev)
			queue_work(rnbd_wq, &msg->late);
		else
			rnbd_msg_free(msg);
	}
	/* The one who waits may have freed the message by now. */
	wake_up_all(&sess->wait);
	rnbd_session_unref(sess);
}

static void rnbd_msg_late(struct work_struct *work)
{
	struct rnbd_msg *msg = container_of(work, struct rnbd_msg, late);
	struct rnbd_open_rsp rsp;

	if (!msg->error && msg->rsp_len == sizeof(struct rnbd_wire_open_rsp) &&
	    !rnbd_open_rsp_decode(msg->rsp, msg->rsp_len, &rsp))
		rnbd_dev_late_open(msg->dev, &rsp, msg->epoch);
	rnbd_msg_free(msg);
}

/*
 * Sending and waiting
 */

static struct rnbd_msg *rnbd_msg_alloc(struct rnbd_session *sess,
				       struct rnbd_dev *dev, size_t usr_len,
				       size_t rsp_len)
{
	struct rnbd_msg *msg;

	msg = kzalloc(sizeof(*msg), GFP_KERNEL);
	if (!msg)
		return NULL;
	if (rsp_len) {
		msg->rsp = kzalloc(rsp_len, GFP_KERNEL);
		if (!msg->rsp) {
			kfree(msg);
			return NULL;
		}
		sg_init_one(&msg->sg, msg->rsp, rsp_len);
		msg->req.sgl = &msg->sg;
		msg->req.nents = 1;
	}
	msg->rsp_len = rsp_len;
	msg->sess = sess;
	if (dev) {
		rnbd_dev_hold(dev);
		msg->dev = dev;
	}
	INIT_WORK(&msg->late, rnbd_msg_late);
	msg->req.dir = rsp_len ? RTRS_DIR_READ : RTRS_DIR_WRITE;
	msg->req.queue = RTRS_QUEUE_ADMIN;
	msg->req.usr = &msg->out;
	msg->req.usr_len = usr_len;
	msg->req.data_len = rsp_len;
	msg->req.done = rnbd_msg_done;
	return msg;
}

static int rnbd_msg_try_send(struct rnbd_msg *msg)
{
	struct rnbd_session *sess = msg->sess;
	int err;

	err = rnbd_msg_get_tag(msg);
	if (err)
		return err;
	if (!msg->bound)
		msg->epoch = READ_ONCE(sess->epoch);
	atomic_set(&msg->phase, PHASE_FLYING);
	kref_get(&sess->ref);

	rcu_read_lock();
	if (READ_ONCE(sess->shut) || msg->epoch != READ_ONCE(sess->epoch))
		err = -ECONNABORTED;
	else
		err = rtrs_client_submit(sess->clt, &msg->req, true);
	rcu_read_unlock();
	if (err) {
		rnbd_msg_put_tag(msg);
		wake_up_all(&sess->wait);
		rnbd_session_unref(sess);
	}
	return err;
}

static bool rnbd_msg_unwanted(const struct rnbd_msg *msg)
{
	return msg->rsp_len && msg->dev &&
	       READ_ONCE(msg->dev->state) == RNBD_DEV_UNMAPPED;
}

/*
 * A CLOSE is sent even by a task with a signal pending: only waiting for its
 * answer is interruptible.
 */
static int rnbd_msg_send(struct rnbd_msg *msg, unsigned int timeout)
{
	unsigned long deadline = jiffies + timeout * HZ;
	struct rnbd_session *sess = msg->sess;
	long left;
	int seen;
	int err;

	for (;;) {
		seen = atomic_read(&sess->events);
		err = rnbd_msg_try_send(msg);
		if (err != -EAGAIN && err != -ENOMEM)
			return err;
		if (time_after(jiffies, deadline))
			return -ETIMEDOUT;
		if (!msg->rsp_len) {
			wait_event_timeout(sess->wait,
					   atomic_read(&sess->events) != seen,
					   HZ / 50 + 1);
			continue;
		}
		left = wait_event_interruptible_timeout(sess->wait,
							atomic_read(&sess->events) != seen ||
							rnbd_msg_unwanted(msg),
							HZ / 50 + 1);
		if (left < 0)
			return left;
		if (rnbd_msg_unwanted(msg))
			return -ENODEV;
	}
}

/*
 * Waits for the answer.  With -EINPROGRESS as @error the message is no longer
 * the caller's; otherwise the caller frees it.
 */
static int rnbd_msg_wait(struct rnbd_msg *msg, unsigned int timeout, int *error)
{
	struct rnbd_session *sess = msg->sess;
	long left;

	left = wait_event_interruptible_timeout(sess->wait,
						atomic_read(&msg->phase) == PHASE_DONE ||
						rnbd_msg_unwanted(msg),
						timeout * HZ);
	if (atomic_cmpxchg(&msg->phase, PHASE_FLYING, PHASE_ABANDONED) ==
	    PHASE_DONE) {
		*error = msg->error;
		return 0;
	}
	if (left < 0)
		*error = left;
	else
		*error = left ? -ENODEV : -ETIMEDOUT;
	return -EINPROGRESS;
}

/**
 * rnbd_send_sess_info() - tell the server our version
 * @sess:	the session
 * @wait:	wait for the answer and take the common version from it
 *
 * Context: process, may sleep; no locks held.
 *
 * Return: 0; -EPROTO for a senseless answer; -ERESTARTSYS; -ETIMEDOUT; or what
 * transport or server said.
 */
int rnbd_send_sess_info(struct rnbd_session *sess, bool wait)
{
	struct rnbd_msg *msg;
	int err;

	msg = rnbd_msg_alloc(sess, NULL, sizeof(msg->out.info),
			     sizeof(struct rnbd_wire_sess_info));
	if (!msg)
		return -ENOMEM;
	rnbd_sess_info_encode(&msg->out.info, RNBD_MSG_SESS_INFO,
			      RNBD_VERSION_MAJOR);
	err = rnbd_msg_send(msg, RNBD_OPEN_TIMEOUT);
	if (err) {
		rnbd_msg_free(msg);
		return err;
	}
	if (!wait) {
		if (atomic_cmpxchg(&msg->phase, PHASE_FLYING,
				   PHASE_ABANDONED) == PHASE_DONE)
			rnbd_msg_free(msg);
		return 0;
	}
	if (rnbd_msg_wait(msg, RNBD_OPEN_TIMEOUT, &err))
		return err;
	if (!err && rnbd_sess_info_decode(msg->rsp, msg->rsp_len,
					  RNBD_MSG_SESS_INFO_RSP, &sess->ver))
		err = -EPROTO;
	rnbd_msg_free(msg);
	return err;
}

/**
 * rnbd_send_open() - OPEN a device at the server
 * @dev:	the device
 * @rsp:	result: the checked answer
 * @epoch:	result: the session's epoch it belongs to
 *
 * Who gives up waiting need not undo anything: a late success is handled by
 * rnbd_dev_late_open().
 *
 * Context: process, may sleep; no locks held.
 *
 * Return: 0; -EINVAL when nothing can be made of the answer; -ENODEV when the
 * device was unmapped meanwhile; -ERESTARTSYS; -ETIMEDOUT; or what transport
 * or server said.
 */
int rnbd_send_open(struct rnbd_dev *dev, struct rnbd_open_rsp *rsp, u32 *epoch)
{
	struct rnbd_msg *msg;
	int err;

	msg = rnbd_msg_alloc(dev->sess, dev, sizeof(msg->out.open),
			     sizeof(struct rnbd_wire_open_rsp));
	if (!msg)
		return -ENOMEM;
	rnbd_open_encode(&msg->out.open, dev->mode, dev->name);
	err = rnbd_msg_send(msg, RNBD_OPEN_TIMEOUT);
	if (err) {
		rnbd_msg_free(msg);
		return err;
	}
	if (rnbd_msg_wait(msg, RNBD_OPEN_TIMEOUT, &err)) {
		if (err == -ETIMEDOUT)
			rnbd_err(dev, "the server did not answer OPEN within %u s\n",
				 RNBD_OPEN_TIMEOUT);
		return err;
	}
	*epoch = msg->epoch;
	if (!err) {
		err = rnbd_open_rsp_decode(msg->rsp, msg->rsp_len, rsp);
		if (err)
			rnbd_err(dev, "the server's description of the device makes no sense (logical block size %u, %llu sectors)\n",
				 rsp->logical_block_size, rsp->nsectors);
	}
	rnbd_msg_free(msg);
	return err;
}

/**
 * rnbd_send_close() - CLOSE a device at the server
 * @dev:	the device
 * @id:		the server's handle
 * @epoch:	the session's epoch it belongs to; in another one nothing is
 *		sent, since the server has closed everything then
 *
 * The answer is awaited, but whatever comes, nothing can be done about it.  As
 * long as there is none the device stays on its session's list, so that
 * nobody can OPEN it again before the server is through with it.
 *
 * Context: process, may sleep; no locks held.
 */
void rnbd_send_close(struct rnbd_dev *dev, u32 id, u32 epoch)
{
	struct rnbd_msg *msg;
	int err;

	msg = rnbd_msg_alloc(dev->sess, dev, sizeof(msg->out.close), 0);
	if (!msg)
		return;
	msg->epoch = epoch;
	msg->bound = true;
	rnbd_close_encode(&msg->out.close, id);
	err = rnbd_msg_send(msg, RNBD_CLOSE_TIMEOUT);
	if (err) {
		if (err != -ECONNABORTED)
			rnbd_err(dev, "CLOSE not sent: %pe; the server has it open until the session ends\n",
				 ERR_PTR(err));
		rnbd_msg_free(msg);
		return;
	}
	if (!rnbd_msg_wait(msg, RNBD_CLOSE_TIMEOUT, &err))
		rnbd_msg_free(msg);
	else if (err == -ETIMEDOUT)
		rnbd_err(dev, "the server did not answer CLOSE within %u s\n",
			 RNBD_CLOSE_TIMEOUT);
}
