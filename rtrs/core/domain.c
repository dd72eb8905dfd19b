// SPDX-License-Identifier: GPL-2.0
/*
 * Protection domains: one per session and RDMA device.
 *
 * A domain is created by the first path of a session on a device, shared by
 * its other paths there and destroyed with the last of them, always in process
 * context under the pool's lock, so that creation and destruction never cross.
 * Looked up by the device's address: a node GUID is no identity, two soft-RoCE
 * devices on cards with one MAC address share theirs.
 *
 * Every path holds its reference until its queue pairs are gone, hence before
 * the CM lets the device go.
 */
#include <linux/err.h>
#include <linux/module.h>

#include "internal.h"

static bool rxe_reg_mr;
module_param(rxe_reg_mr, bool, 0444);
MODULE_PARM_DESC(rxe_reg_mr,
		 "Use memory registration per request on soft-RoCE, too, as on all other devices; lost packets break it there. For tests (default: N)");

/**
 * rtrs_avoids_reg_mr() - must no registration be posted among a device's requests?
 * @dev:	the device
 *
 * When soft-RoCE retransmits, it executes registrations that were done already
 * once more (README.md, "Provider bugs to know about").  The second time fails and
 * takes the queue pair with it, on 6.1 even silently.
 */
bool rtrs_avoids_reg_mr(const struct ib_device *dev)
{
	return dev->ops.driver_id == RDMA_DRIVER_RXE && !rxe_reg_mr;
}
EXPORT_SYMBOL_GPL(rtrs_avoids_reg_mr);

/**
 * rtrs_domain_pool_init() - prepare a session's set of domains
 * @pool:	the set
 * @ops:	what the side adds to each domain
 */
void rtrs_domain_pool_init(struct rtrs_domain_pool *pool,
			   const struct rtrs_domain_ops *ops)
{
	mutex_init(&pool->lock);
	INIT_LIST_HEAD(&pool->domains);
	pool->ops = ops;
}
EXPORT_SYMBOL_GPL(rtrs_domain_pool_init);

static struct rtrs_domain *create_domain(struct rtrs_domain_pool *pool,
					 struct ib_device *dev)
{
	struct rtrs_domain *dom = pool->ops->alloc(pool);
	int err;

	if (!dom)
		return ERR_PTR(-ENOMEM);
	kref_init(&dom->ref);
	dom->pool = pool;
	dom->dev = dev;
	dom->pd = ib_alloc_pd(dev, 0);
	if (IS_ERR(dom->pd)) {
		err = PTR_ERR(dom->pd);
		goto free;
	}
	err = pool->ops->setup(dom);
	if (err)
		goto dealloc;
	list_add(&dom->entry, &pool->domains);
	return dom;

dealloc:
	ib_dealloc_pd(dom->pd);
free:
	pool->ops->free(dom);
	return ERR_PTR(err);
}

/**
 * rtrs_domain_get() - the session's domain on a device, created if need be
 * @pool:	the session's set
 * @dev:	the device; the caller keeps it alive (a CM id bound to it does)
 *
 * Context: process context, sleeps.
 * Return: the domain with a reference, or an ERR_PTR: -ENOMEM or what the
 * device or the side's setup said.
 */
struct rtrs_domain *rtrs_domain_get(struct rtrs_domain_pool *pool,
				    struct ib_device *dev)
{
	struct rtrs_domain *dom;

	mutex_lock(&pool->lock);
	list_for_each_entry(dom, &pool->domains, entry) {
		if (dom->dev == dev) {
			kref_get(&dom->ref);
			goto unlock;
		}
	}
	dom = create_domain(pool, dev);
unlock:
	mutex_unlock(&pool->lock);
	return dom;
}
EXPORT_SYMBOL_GPL(rtrs_domain_get);

static void destroy_domain(struct kref *ref)
{
	struct rtrs_domain *dom = container_of(ref, struct rtrs_domain, ref);
	struct rtrs_domain_pool *pool = dom->pool;

	list_del(&dom->entry);
	pool->ops->teardown(dom);
	ib_dealloc_pd(dom->pd);
	pool->ops->free(dom);
	mutex_unlock(&pool->lock);
}

/**
 * rtrs_domain_put() - give a reference back
 * @dom:	the domain; gone afterwards if it was the last reference
 *
 * Context: process context, sleeps.
 */
void rtrs_domain_put(struct rtrs_domain *dom)
{
	kref_put_mutex(&dom->ref, destroy_domain, &dom->pool->lock);
}
EXPORT_SYMBOL_GPL(rtrs_domain_put);
