// SPDX-License-Identifier: GPL-2.0
/*
 * /sys/class/rtrs-client: the class and the attributes of a session.
 *
 * A session is a device of the class.  The memory of a session belongs to its
 * device, which is initialised when the session is allocated, added before its
 * paths connect, and removed after they are gone; its release frees.
 *
 * add_path runs in the writer's context and blocks.  Close does not wait for it
 * by way of the attribute alone: it wakes it first (paths.c).
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/kstrtox.h>
#include <linux/string.h>
#include <linux/sysfs.h>

#include "compat/core.h"
#include "client.h"

#define MAX_RECONNECTS	9999

struct class *client_class;

static ssize_t max_reconnect_attempts_show(struct device *dev,
					   struct device_attribute *attr,
					   char *buf)
{
	return sysfs_emit(buf, "%d\n",
			  READ_ONCE(to_client(dev)->max_reconnects));
}

static ssize_t max_reconnect_attempts_store(struct device *dev,
					    struct device_attribute *attr,
					    const char *buf, size_t count)
{
	int value, err;

	err = kstrtoint(buf, 10, &value);
	if (err)
		return err;
	if (value < -1 || value > MAX_RECONNECTS) {
		pr_err("session %s: max_reconnect_attempts %d is out of range, -1 to %d are possible\n",
		       to_client(dev)->name, value, MAX_RECONNECTS);
		return -EINVAL;
	}
	WRITE_ONCE(to_client(dev)->max_reconnects, value);
	return count;
}
static DEVICE_ATTR_RW(max_reconnect_attempts);

static ssize_t mpath_policy_show(struct device *dev,
				 struct device_attribute *attr, char *buf)
{
	enum client_policy policy = READ_ONCE(to_client(dev)->policy);
	const struct client_policy_name *p = client_policy_info(policy);

	return sysfs_emit(buf, "%s (%s: %d)\n", p->name, p->shown, policy);
}

static ssize_t mpath_policy_store(struct device *dev,
				  struct device_attribute *attr,
				  const char *buf, size_t count)
{
	int policy = client_policy_parse(buf, count);

	if (policy < 0) {
		pr_err("session %s: mpath_policy is one of round-robin, min-inflight, min-latency, rr, mi, ml, 0, 1, 2\n",
		       to_client(dev)->name);
		return policy;
	}
	WRITE_ONCE(to_client(dev)->policy, policy);
	return count;
}
static DEVICE_ATTR_RW(mpath_policy);

static ssize_t add_path_show(struct device *dev, struct device_attribute *attr,
			     char *buf)
{
	return sysfs_emit(buf,
			  "Usage: echo [<source addr>@]<destination addr> > %s\n\n"
			  "*addr ::= [ ip:<ipv4|ipv6> | gid:<gid> ]\n",
			  attr->attr.name);
}

static ssize_t add_path_store(struct device *dev,
			      struct device_attribute *attr, const char *buf,
			      size_t count)
{
	struct rtrs_client *clt = to_client(dev);
	struct rtrs_addr addr;
	int err;

	if (rtrs_addr_parse(buf, strcspn(buf, "\n"), clt->cfg.port, &addr)) {
		pr_err("session %s: add_path: not an address\n", clt->name);
		return -EINVAL;
	}
	err = client_paths_add(clt, &addr);
	return err ?: count;
}
static DEVICE_ATTR_RW(add_path);

static struct attribute *client_session_attrs[] = {
	&dev_attr_max_reconnect_attempts.attr,
	&dev_attr_mpath_policy.attr,
	&dev_attr_add_path.attr,
	NULL,
};

static const struct attribute_group client_session_group = {
	.attrs = client_session_attrs,
};

const struct attribute_group *client_session_groups[] = {
	&client_session_group,
	NULL,
};

/**
 * client_sysfs_init() - create the class
 *
 * Context: module load.
 * Return: 0 or an errno.
 */
int client_sysfs_init(void)
{
	client_class = compat_class_create("rtrs-client");
	return PTR_ERR_OR_ZERO(client_class);
}

/**
 * client_sysfs_exit() - destroy the class; no session is left
 *
 * Context: module unload.
 */
void client_sysfs_exit(void)
{
	class_destroy(client_class);
}
