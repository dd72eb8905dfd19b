// SPDX-License-Identifier: GPL-2.0
/*
 * The end of connections at the CM, and what soft-RoCE cannot bear there.
 *
 * The CM's messages travel on one queue pair per port that belongs to the
 * kernel.  In newer kernels a packet that the network device does not take stops
 * a soft-RoCE queue pair, this one, too, and nobody ever starts it again: the
 * device can neither connect nor be connected to until it is made anew.  Between
 * the loss of its carrier and the time the kernel looks at that, a second at
 * most, a network device takes no packets; afterwards most of them wait for an
 * ARP answer that does not come, which is harmless.  The loss of the carrier is
 * also what ends many connections at once, and each says good-bye.
 *
 * Hence no good-bye is said into a link that is lost.  The CM has no way to
 * destroy an id that is connected without a message, so such ids are taken from
 * their owner and kept until the link is back, their device goes or we do.
 */
#include <linux/list.h>
#include <linux/mutex.h>
#include <linux/netdevice.h>
#include <linux/slab.h>
#include <net/net_namespace.h>
#include <net/sch_generic.h>

#include <compat/core.h>

#include "internal.h"

#define LOOK_JIFFIES	HZ

/**
 * struct kept - an id that waits for its end
 * @entry:	in kept_ids
 * @cm_id:	nobody else's any more
 * @hurry:	its device is removed
 */
struct kept {
	struct list_head	entry;
	struct rdma_cm_id	*cm_id;
	bool			hurry;
};

static void look_at_links(struct work_struct *work);

static DEFINE_MUTEX(kept_lock);	/* kept_ids */
static LIST_HEAD(kept_ids);
static DECLARE_DELAYED_WORK(kept_work, look_at_links);

/**
 * rtrs_cm_link_lost() - would a message of the CM do harm?
 * @cm_id:	bound to a device or not
 *
 * Context: process context.
 * Return: true on soft-RoCE whose network device takes no packets now.
 */
bool rtrs_cm_link_lost(const struct rdma_cm_id *cm_id)
{
	struct net_device *ndev;
	bool lost;

	if (!cm_id->device || cm_id->device->ops.driver_id != RDMA_DRIVER_RXE)
		return false;
	ndev = dev_get_by_index(&init_net,
				cm_id->route.addr.dev_addr.bound_dev_if);
	if (!ndev)
		return false;
	lost = !netif_carrier_ok(ndev) || qdisc_tx_is_noop(ndev);
	dev_put(ndev);
	return lost;
}
EXPORT_SYMBOL_GPL(rtrs_cm_link_lost);

/**
 * rtrs_conn_disconnect() - say good-bye, unless that would do harm
 * @conn:	the connection; with an id, connected or not
 *
 * Context: process context, sleeps.
 */
void rtrs_conn_disconnect(struct rtrs_conn *conn)
{
	conn->unsaid = conn->met && rtrs_cm_link_lost(conn->cm_id);
	if (!conn->unsaid)
		rdma_disconnect(conn->cm_id);
}
EXPORT_SYMBOL_GPL(rtrs_conn_disconnect);

/* The device waits for its ids to go. */
static int kept_event(struct rdma_cm_id *cm_id, struct rdma_cm_event *ev)
{
	struct kept *kept = cm_id->context;

	if (ev->event == RDMA_CM_EVENT_DEVICE_REMOVAL) {
		WRITE_ONCE(kept->hurry, true);
		mod_delayed_work(system_dfl_wq, &kept_work, 0);
	}
	return 0;
}

static void destroy_kept(struct list_head *due)
{
	struct kept *kept, *next;

	list_for_each_entry_safe(kept, next, due, entry) {
		rdma_destroy_id(kept->cm_id);
		kfree(kept);
	}
}

static void look_at_links(struct work_struct *work)
{
	struct kept *kept, *next;
	LIST_HEAD(due);

	mutex_lock(&kept_lock);
	list_for_each_entry_safe(kept, next, &kept_ids, entry)
		if (READ_ONCE(kept->hurry) || !rtrs_cm_link_lost(kept->cm_id))
			list_move(&kept->entry, &due);
	if (!list_empty(&kept_ids))
		queue_delayed_work(system_dfl_wq, &kept_work, LOOK_JIFFIES);
	mutex_unlock(&kept_lock);
	destroy_kept(&due);
}

/* Take an id from its owner; false if that is told of the device's removal. */
static bool take_over(struct rtrs_conn *conn, struct kept *kept)
{
	struct rdma_cm_id *cm_id = conn->cm_id;
	bool ret;

	rdma_lock_handler(cm_id);
	ret = !conn->dev_gone;
	if (ret) {
		kept->cm_id = cm_id;
		cm_id->event_handler = kept_event;
		cm_id->context = kept;
	}
	rdma_unlock_handler(cm_id);
	return ret;
}

/**
 * rtrs_conn_destroy_id() - be rid of a connection's id
 * @conn:	disconnected and without a queue pair; may have no id
 *
 * No event of it reaches the owner's handler any more when this returns.
 *
 * Context: process context, sleeps; not from the id's handler.
 */
void rtrs_conn_destroy_id(struct rtrs_conn *conn)
{
	struct kept *kept = NULL;

	if (!conn->cm_id)
		return;
	if (conn->unsaid && rtrs_cm_link_lost(conn->cm_id))
		kept = kzalloc(sizeof(*kept), GFP_KERNEL);
	if (kept && take_over(conn, kept)) {
		mutex_lock(&kept_lock);
		list_add_tail(&kept->entry, &kept_ids);
		queue_delayed_work(system_dfl_wq, &kept_work, LOOK_JIFFIES);
		mutex_unlock(&kept_lock);
	} else {
		kfree(kept);
		rdma_destroy_id(conn->cm_id);
	}
	conn->cm_id = NULL;
}
EXPORT_SYMBOL_GPL(rtrs_conn_destroy_id);

/* Nobody calls rtrs_conn_destroy_id() any more. */
void rtrs_cm_module_exit(void)
{
	LIST_HEAD(all);

	mutex_lock(&kept_lock);
	list_splice_init(&kept_ids, &all);
	mutex_unlock(&kept_lock);
	destroy_kept(&all);
	/* Their events start it. */
	cancel_delayed_work_sync(&kept_work);
}
