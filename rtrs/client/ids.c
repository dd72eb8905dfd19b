// SPDX-License-Identifier: GPL-2.0
/*
 * Buffer ids after a path was lost.
 *
 * A tag leads to a buffer id, and the server has one chunk for it that all paths
 * share.  When a path dies, an operation that arrived over it may still be
 * queued at the server, and nothing on the wire tells.  If the request is sent
 * again over another path under the same id, the chunk gets the same bytes, so
 * that does no harm; but whoever uses the id for something else afterwards
 * writes into memory that the late operation may still write to a disk.
 *
 * So a request that a dead path did not answer leaves a hold on its id, and when
 * the request ends, answered over another path or failed, a held id is parked
 * instead of staying with its tag.  What proves that the server has nothing left
 * of the dead path's is that it accepts the same path again, or another one
 * between the same addresses: both are refused as long as the old one exists,
 * and a path ends after its operations.  This takes the hold away.  The holds
 * of a path that was removed wait for a path between its addresses, or for the
 * end of the session.  A parked id whose request was answered elsewhere is
 * trusted again after PARK_JIFFIES, or when no other id is left: a server that
 * fences (ours) answers the copy only when the original has ended.  An id whose
 * request failed without any answer is never trusted without proof.
 *
 * Normally every slot has its id and none of this costs anything.  From the
 * moment a path is taken down until all slots have an id again that nobody holds,
 * the ids are dynamic: a submitter claims the slot's id under a lock, and a slot
 * without one takes a free one, or that of an idle slot.  The switch is made
 * before the grace period that a teardown waits for anyway, hence no submitter
 * overlooks it: holds and missing ids come into being after it.
 *
 * Everything is under client_ids.lock except for reading slot->id and by_id.
 * slot->id changes only while its slot is neither claimed nor busy, or at the
 * hands of who ends the request; an answer is matched with both (io.c).
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/mm.h>
#include <linux/slab.h>

#include "client.h"

#define PARK_JIFFIES	(60 * HZ)

static void bind(struct rtrs_client *clt, struct client_slot *slot, u32 id)
{
	clt->ids.id[id].place = CLIENT_ID_BOUND;
	WRITE_ONCE(slot->id, id);
	WRITE_ONCE(clt->by_id[id], slot);
}

static void unbind(struct rtrs_client *clt, struct client_slot *slot)
{
	WRITE_ONCE(clt->by_id[slot->id], NULL);
	WRITE_ONCE(slot->id, CLIENT_NO_ID);
	clt->ids.nr_missing++;
}

static void set_free(struct client_ids *ids, struct client_id *id)
{
	id->place = CLIENT_ID_FREE;
	list_move_tail(&id->entry, &ids->free);
	ids->nr_free++;
}

static struct client_id *take_free(struct client_ids *ids)
{
	struct client_id *id = list_first_entry_or_null(&ids->free,
							struct client_id, entry);

	if (id) {
		list_del_init(&id->entry);
		ids->nr_free--;
	}
	return id;
}

/* A parked id is trusted again, whoever holds it. */
static void trust(struct client_ids *ids, struct client_id *id)
{
	struct client_hold *hold;

	list_for_each_entry(hold, &ids->holds, entry)
		__clear_bit(id - ids->id, hold->bits);
	id->holds = 0;
	set_free(ids, id);
}

static void trust_old(struct client_ids *ids)
{
	struct client_id *id, *next;

	list_for_each_entry_safe(id, next, &ids->answered, entry) {
		if (time_before(jiffies, id->parked_at + PARK_JIFFIES))
			break;
		trust(ids, id);
	}
}

/* The id of a slot that nobody uses and that no submitter is about to use */
static struct client_id *steal(struct rtrs_client *clt)
{
	struct client_ids *ids = &clt->ids;
	u32 i;

	for (i = 0; i < clt->nr_tags; i++) {
		struct client_slot *slot = &clt->slot[ids->hand];
		u32 id = slot->id;

		if (++ids->hand == clt->nr_tags)
			ids->hand = 0;
		if (id == CLIENT_NO_ID || slot->claimed || ids->id[id].holds ||
		    atomic_read_acquire(&slot->state) & SLOT_BUSY)
			continue;
		unbind(clt, slot);
		return &ids->id[id];
	}
	return NULL;
}

static struct client_id *take(struct rtrs_client *clt)
{
	struct client_ids *ids = &clt->ids;
	struct client_id *id;

	trust_old(ids);
	id = take_free(ids) ?: steal(clt);
	if (id || list_empty(&ids->answered))
		return id;
	/* Rather trust the oldest than stand still. */
	trust(ids, list_first_entry(&ids->answered, struct client_id, entry));
	return take_free(ids);
}

/* Back to normal if every slot can have an id that nobody holds. */
static void settle(struct rtrs_client *clt)
{
	struct client_ids *ids = &clt->ids;
	u32 tag;

	if (!ids->dynamic || ids->users || ids->nr_bound_held)
		return;
	trust_old(ids);
	if (ids->nr_missing > ids->nr_free)
		return;
	for (tag = 0; ids->nr_missing; tag++) {
		if (clt->slot[tag].id != CLIENT_NO_ID)
			continue;
		bind(clt, &clt->slot[tag], take_free(ids) - ids->id);
		ids->nr_missing--;
	}
	ids->warned = false;
	/* Who sees it sees all ids; pairs with client_ids_dynamic(). */
	smp_store_release(&ids->dynamic, false);
}

/**
 * client_id_claim() - make sure that a slot has an id, and keeps it
 * @clt:	the session
 * @slot:	free slot of the caller's tag
 *
 * Context: any; under the rcu_read_lock() in which client_ids_dynamic() was
 * true.
 * Return: whether it has one; if not, others have to end first.
 */
bool client_id_claim(struct rtrs_client *clt, struct client_slot *slot)
{
	struct client_ids *ids = &clt->ids;
	bool out = false, warn = false;
	unsigned long flags;

	spin_lock_irqsave(&ids->lock, flags);
	if (slot->id == CLIENT_NO_ID) {
		struct client_id *id = take(clt);

		if (id) {
			bind(clt, slot, id - ids->id);
			ids->nr_missing--;
		} else {
			out = true;
			warn = !ids->warned;
			ids->warned = true;
		}
	}
	slot->claimed = !out;
	spin_unlock_irqrestore(&ids->lock, flags);
	if (warn)
		pr_warn("session %s: all buffers are in use, or not to be used until a lost path is connected again\n",
			clt->name);
	return !out;
}

/**
 * client_id_unclaim() - the request was not sent
 * @clt:	the session
 * @slot:	claimed, not busy
 *
 * Context: any.
 */
void client_id_unclaim(struct rtrs_client *clt, struct client_slot *slot)
{
	unsigned long flags;

	spin_lock_irqsave(&clt->ids.lock, flags);
	slot->claimed = false;
	spin_unlock_irqrestore(&clt->ids.lock, flags);
}

/**
 * client_id_done() - a request ends whose id was claimed
 * @clt:	the session
 * @slot:	claimed; about to be given back
 * @answered:	the server answered it, over whichever path
 *
 * Context: any.
 */
void client_id_done(struct rtrs_client *clt, struct client_slot *slot,
		    bool answered)
{
	struct client_ids *ids = &clt->ids;
	struct client_id *id;
	unsigned long flags;

	spin_lock_irqsave(&ids->lock, flags);
	slot->claimed = false;
	id = &ids->id[slot->id];
	if (id->holds) {
		unbind(clt, slot);
		ids->nr_bound_held--;
		id->place = CLIENT_ID_PARKED;
		id->parked_at = jiffies;
		if (answered)
			list_add_tail(&id->entry, &ids->answered);
	}
	settle(clt);
	spin_unlock_irqrestore(&ids->lock, flags);
}

/**
 * client_ids_enter() - a path is about to be taken down
 * @clt:	the session
 *
 * A grace period must pass before ids are held; client_ids_leave() follows.
 *
 * Context: any.
 */
void client_ids_enter(struct rtrs_client *clt)
{
	struct client_ids *ids = &clt->ids;

	spin_lock_irq(&ids->lock);
	ids->users++;
	WRITE_ONCE(ids->dynamic, true);
	spin_unlock_irq(&ids->lock);
}

/**
 * client_ids_leave() - the requests of the path have been seen to
 * @clt:	the session
 *
 * Context: any.
 */
void client_ids_leave(struct rtrs_client *clt)
{
	struct client_ids *ids = &clt->ids;

	spin_lock_irq(&ids->lock);
	ids->users--;
	settle(clt);
	spin_unlock_irq(&ids->lock);
}

/**
 * client_ids_hold() - a path has not answered a request
 * @path:	the path, drained
 * @slot:	the request, busy on it
 *
 * Context: process context; between client_ids_enter(), with a grace period
 * behind it, and client_ids_leave().
 */
void client_ids_hold(struct client_path *path, struct client_slot *slot)
{
	struct client_ids *ids = &path->clt->ids;

	spin_lock_irq(&ids->lock);
	slot->claimed = true;
	if (!__test_and_set_bit(slot->id, path->hold->bits) &&
	    !ids->id[slot->id].holds++)
		ids->nr_bound_held++;
	spin_unlock_irq(&ids->lock);
}

static void release_hold(struct client_ids *ids, struct client_hold *hold,
			 u32 nr_ids)
{
	u32 i;

	for_each_set_bit(i, hold->bits, nr_ids) {
		struct client_id *id = &ids->id[i];

		if (--id->holds)
			continue;
		if (id->place == CLIENT_ID_PARKED)
			set_free(ids, id);
		else
			ids->nr_bound_held--;
	}
	bitmap_zero(hold->bits, nr_ids);
}

/* Did @hold belong to @path, or to a path that was between its addresses? */
static bool holds_for(const struct client_hold *hold,
		      const struct client_path *path)
{
	if (hold->path)
		return hold->path == path;
	return rtrs_addr_equal(&hold->addr.src, &path->addr.src) &&
	       rtrs_addr_equal(&hold->addr.dst, &path->addr.dst);
}

/**
 * client_ids_release() - the server accepted a path: its predecessor is gone
 * @path:	the path, its source is known
 *
 * Context: process context; under the path's op_lock.
 */
void client_ids_release(struct client_path *path)
{
	struct rtrs_client *clt = path->clt;
	struct client_ids *ids = &clt->ids;
	struct client_hold *hold, *next;
	LIST_HEAD(gone);

	spin_lock_irq(&ids->lock);
	list_for_each_entry_safe(hold, next, &ids->holds, entry) {
		if (!holds_for(hold, path))
			continue;
		release_hold(ids, hold, clt->nr_ids);
		if (!hold->path)
			list_move(&hold->entry, &gone);
	}
	settle(clt);
	spin_unlock_irq(&ids->lock);
	list_for_each_entry_safe(hold, next, &gone, entry)
		kvfree(hold);
}

/**
 * client_ids_add_path() - let a path hold ids
 * @path:	the path; the session's constants are known
 *
 * Context: process context, sleeps; under the path's op_lock.
 * Return: 0, also if it was done before, or -ENOMEM.
 */
int client_ids_add_path(struct client_path *path)
{
	struct client_ids *ids = &path->clt->ids;
	struct client_hold *hold;

	if (path->hold)
		return 0;
	hold = kvzalloc(struct_size(hold, bits,
				    BITS_TO_LONGS(path->clt->nr_ids)),
			GFP_KERNEL);
	if (!hold)
		return -ENOMEM;
	hold->path = path;
	path->hold = hold;
	spin_lock_irq(&ids->lock);
	list_add_tail(&hold->entry, &ids->holds);
	spin_unlock_irq(&ids->lock);
	return 0;
}

/**
 * client_ids_del_path() - a path is gone for good; what it held stays held
 * @path:	the path, without connections; may never have held anything
 *
 * Context: process context, sleeps.
 */
void client_ids_del_path(struct client_path *path)
{
	struct client_ids *ids = &path->clt->ids;
	struct client_hold *hold = path->hold;

	if (!hold)
		return;
	path->hold = NULL;
	spin_lock_irq(&ids->lock);
	hold->path = NULL;
	hold->addr = path->addr;
	if (bitmap_empty(hold->bits, path->clt->nr_ids))
		list_del(&hold->entry);
	else
		hold = NULL;
	spin_unlock_irq(&ids->lock);
	kvfree(hold);
}

/**
 * client_ids_alloc() - the ids of a session whose slots have got theirs
 * @clt:	the session; its constants are known
 *
 * Context: process context, sleeps.
 * Return: 0 or -ENOMEM.
 */
int client_ids_alloc(struct rtrs_client *clt)
{
	struct client_ids *ids = &clt->ids;
	u32 id;

	ids->id = kvcalloc(clt->nr_ids, sizeof(*ids->id), GFP_KERNEL);
	if (!ids->id)
		return -ENOMEM;
	for (id = 0; id < clt->nr_ids; id++)
		INIT_LIST_HEAD(&ids->id[id].entry);
	for (id = clt->nr_tags; id < clt->nr_ids; id++)
		set_free(ids, &ids->id[id]);
	return 0;
}

/**
 * client_ids_free() - end of the ids
 * @clt:	the session, without paths; may never have had ids
 *
 * Context: process context, sleeps.
 */
void client_ids_free(struct rtrs_client *clt)
{
	struct client_hold *hold, *next;

	list_for_each_entry_safe(hold, next, &clt->ids.holds, entry)
		kvfree(hold);
	INIT_LIST_HEAD(&clt->ids.holds);
	kvfree(clt->ids.id);
	clt->ids.id = NULL;
}
