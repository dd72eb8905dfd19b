// SPDX-License-Identifier: GPL-2.0
/*
 * The end of CM ids, and what soft-RoCE cannot bear there.
 *
 * The CM's messages travel on one queue pair per port that belongs to the
 * kernel.  In newer kernels a packet that the network device does not take stops
 * a soft-RoCE queue pair, this one, too, and nobody ever starts it again: the
 * device can neither connect nor be connected to until it is made anew.  A
 * network device takes no packets from the loss of its carrier until the kernel
 * has looked at that, for a second at most; afterwards they wait for an ARP
 * answer that does not come, which is harmless.  The loss of the carrier is
 * also what ends many connections at once, and each says good-bye.
 *
 * Hence no message is sent into a link that is lost.  The CM has no way to
 * destroy an established id without a message, so such ids are kept for a while:
 * rtrs_cm_destroy() takes them from their owner and this file waits.
 */
#include <linux/list.h>
#include <linux/mutex.h>
#include <linux/netdevice.h>
#include <linux/slab.h>
#include <net/net_namespace.h>
#include <net/sch_generic.h>

#include <compat/core.h>

#include "internal.h"

/*
 * The kernel looks at carriers once a second (net/core/link_watch.c); the rest
 * is for machines that are busy.
 */
#define LINK_LOOK_MS	1000
#define LINK_LOOKS	5

/**
 * struct kept - an id that waits for its end
 * @entry:	in kept_ids
 * @cm_id:	nobody else's any more
 * @looks:	how often the link may still be found lost; kept_lock
 * @hurry:	its device is removed
 */
struct kept {
	struct list_head	entry;
	struct rdma_cm_id	*cm_id;
	unsigned int		looks;
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
 * rtrs_cm_disconnect() - say good-bye, unless that would do harm
 * @cm_id:	the id; connected or not
 *
 * Context: process context, sleeps.
 * Return: false if nothing was said.
 */
bool rtrs_cm_disconnect(struct rdma_cm_id *cm_id)
{
	if (rtrs_cm_link_lost(cm_id))
		return false;
	rdma_disconnect(cm_id);
	return true;
}
EXPORT_SYMBOL_GPL(rtrs_cm_disconnect);

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

static bool is_due(struct kept *kept)
{
	return READ_ONCE(kept->hurry) || !kept->looks-- ||
	       !rtrs_cm_link_lost(kept->cm_id);
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
		if (is_due(kept))
			list_move(&kept->entry, &due);
	if (!list_empty(&kept_ids))
		queue_delayed_work(system_dfl_wq, &kept_work,
				   msecs_to_jiffies(LINK_LOOK_MS));
	mutex_unlock(&kept_lock);
	destroy_kept(&due);
}

/**
 * rtrs_cm_destroy() - be rid of an id
 * @cm_id:	without a queue pair.  No event of it reaches the owner's handler
 *		any more when this returns.
 *
 * Context: process context, sleeps; not from the id's handler.
 */
void rtrs_cm_destroy(struct rdma_cm_id *cm_id)
{
	struct kept *kept = NULL;

	if (rtrs_cm_link_lost(cm_id))
		kept = kzalloc(sizeof(*kept), GFP_KERNEL);
	if (!kept) {
		rdma_destroy_id(cm_id);
		return;
	}
	kept->cm_id = cm_id;
	kept->looks = LINK_LOOKS;
	rdma_lock_handler(cm_id);
	cm_id->event_handler = kept_event;
	cm_id->context = kept;
	rdma_unlock_handler(cm_id);
	mutex_lock(&kept_lock);
	list_add_tail(&kept->entry, &kept_ids);
	queue_delayed_work(system_dfl_wq, &kept_work,
			   msecs_to_jiffies(LINK_LOOK_MS));
	mutex_unlock(&kept_lock);
}
EXPORT_SYMBOL_GPL(rtrs_cm_destroy);

/* Nobody calls rtrs_cm_destroy() any more. */
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
