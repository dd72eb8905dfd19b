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

/* An attribute of a session: what it says, and what it makes of a line */
struct session_file {
	struct device_attribute	attr;
	ssize_t			(*print)(const struct rtrs_client *clt, char *buf);
	int			(*take)(struct rtrs_client *clt, const char *line,
					size_t len);
};

static const struct session_file *to_file(struct device_attribute *attr)
{
	return container_of(attr, struct session_file, attr);
}

static ssize_t file_show(struct device *dev, struct device_attribute *attr,
			 char *buf)
{
	return to_file(attr)->print(to_client(dev), buf);
}

static ssize_t file_store(struct device *dev, struct device_attribute *attr,
			  const char *buf, size_t count)
{
	int err = to_file(attr)->take(to_client(dev), buf, count);

	return err ?: count;
}

static ssize_t print_attempts(const struct rtrs_client *clt, char *buf)
{
	return sysfs_emit(buf, "%d\n", READ_ONCE(clt->max_reconnects));
}

static int take_attempts(struct rtrs_client *clt, const char *line, size_t len)
{
	int n, err = kstrtoint(line, 10, &n);

	if (!err && (n < -1 || n > MAX_RECONNECTS)) {
		pr_err("session %s: max_reconnect_attempts %d is out of range, -1 to %d are possible\n",
		       clt->name, n, MAX_RECONNECTS);
		err = -EINVAL;
	}
	if (!err)
		WRITE_ONCE(clt->max_reconnects, n);
	return err;
}

static ssize_t print_policy(const struct rtrs_client *clt, char *buf)
{
	enum client_policy policy = READ_ONCE(clt->policy);
	const struct client_policy_name *p = client_policy_info(policy);

	return sysfs_emit(buf, "%s (%s: %d)\n", p->name, p->shown, policy);
}

static int take_policy(struct rtrs_client *clt, const char *line, size_t len)
{
	int policy = client_policy_parse(line, len);

	if (policy < 0) {
		pr_err("session %s: mpath_policy is one of round-robin, min-inflight, min-latency, rr, mi, ml, 0, 1, 2\n",
		       clt->name);
		return policy;
	}
	WRITE_ONCE(clt->policy, policy);
	return 0;
}

static ssize_t print_add_path(const struct rtrs_client *clt, char *buf)
{
	return sysfs_emit(buf, "%s\n\n%s\n",
			  "Usage: echo [<source addr>@]<destination addr> > add_path",
			  "*addr ::= [ ip:<ipv4|ipv6> | gid:<gid> ]");
}

static int take_path(struct rtrs_client *clt, const char *line, size_t len)
{
	struct rtrs_addr addr;

	if (rtrs_addr_parse(line, strcspn(line, "\n"), clt->cfg.port, &addr)) {
		pr_err("session %s: add_path: not an address\n", clt->name);
		return -EINVAL;
	}
	return client_paths_add(clt, &addr);
}

#define SESSION_FILE(_name, _print, _take)				\
	static struct session_file _name##_file = {			\
		.attr	= __ATTR(_name, 0644, file_show, file_store),	\
		.print	= _print,					\
		.take	= _take,					\
	}

SESSION_FILE(max_reconnect_attempts, print_attempts, take_attempts);
SESSION_FILE(mpath_policy, print_policy, take_policy);
SESSION_FILE(add_path, print_add_path, take_path);

static struct attribute *session_files[] = {
	&max_reconnect_attempts_file.attr.attr,
	&mpath_policy_file.attr.attr,
	&add_path_file.attr.attr,
	NULL,
};

static const struct attribute_group session_files_group = {
	.attrs = session_files,
};

const struct attribute_group *client_session_groups[] = {
	&session_files_group,
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
