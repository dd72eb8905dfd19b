// SPDX-License-Identifier: GPL-2.0
/*
 * Statistics of a path: paths/.../stats/.
 *
 * Counted per CPU, so that no line is written by all of them; summed up when
 * somebody reads.  How many requests are in flight is no statistic but live
 * state that the choice of a path is made from: it is kept per connection, and
 * no reset touches it.  A reset is not atomic with respect to those who count.
 */
#include <linux/cpumask.h>
#include <linux/sysfs.h>

#include "client.h"

static struct client_path *to_path(struct kobject *kobj)
{
	return container_of(kobj, struct client_path, kobj);
}

/**
 * client_stats_inflight() - requests on a path
 * @path:	the path
 *
 * Context: any.
 */
u32 client_stats_inflight(const struct client_path *path)
{
	u32 cid, sum = 0;

	for (cid = 0; cid < path->nr_conns; cid++)
		sum += atomic_read(&path->conn[cid]->inflight);
	return sum;
}

static void reset_rdma(struct client_path *path)
{
	int cpu;

	for_each_possible_cpu(cpu) {
		struct client_stats *s = per_cpu_ptr(path->stats, cpu);

		memset(s->dir, 0, sizeof(s->dir));
		WRITE_ONCE(s->failed_over, 0);
	}
}

static void reset_migration(struct client_path *path)
{
	u32 cid;
	int cpu;

	for_each_possible_cpu(cpu)
		WRITE_ONCE(per_cpu_ptr(path->stats, cpu)->migrated_to, 0);
	for (cid = 0; cid < path->nr_conns; cid++)
		WRITE_ONCE(path->conn[cid]->migrated, 0);
}

static void reset_reconnects(struct client_path *path)
{
	spin_lock_irq(&path->lock);
	path->nr_up = 0;
	path->nr_failed = 0;
	spin_unlock_irq(&path->lock);
}

static void reset_everything(struct client_path *path)
{
	reset_rdma(path);
	reset_migration(path);
	reset_reconnects(path);
}

static ssize_t reset(struct client_path *path, struct kobj_attribute *attr,
		     const char *buf, size_t count,
		     void (*how)(struct client_path *path))
{
	if (!sysfs_streq(buf, "1")) {
		path_log(err, path, "stats/%s accepts nothing but 1",
			 attr->attr.name);
		return -EINVAL;
	}
	how(path);
	return count;
}

static ssize_t rdma_show(struct kobject *kobj, struct kobj_attribute *attr,
			 char *buf)
{
	struct client_path *path = to_path(kobj);
	struct client_stats sum = {};
	int cpu, dir;

	for_each_possible_cpu(cpu) {
		const struct client_stats *s = per_cpu_ptr(path->stats, cpu);

		for (dir = 0; dir < 2; dir++) {
			sum.dir[dir].count += READ_ONCE(s->dir[dir].count);
			sum.dir[dir].bytes += READ_ONCE(s->dir[dir].bytes);
		}
		sum.failed_over += READ_ONCE(s->failed_over);
	}
	return sysfs_emit(buf, "%llu %llu %llu %llu %u %llu\n",
			  sum.dir[RTRS_DIR_READ].count,
			  sum.dir[RTRS_DIR_READ].bytes,
			  sum.dir[RTRS_DIR_WRITE].count,
			  sum.dir[RTRS_DIR_WRITE].bytes,
			  client_stats_inflight(path), sum.failed_over);
}

static ssize_t rdma_store(struct kobject *kobj, struct kobj_attribute *attr,
			  const char *buf, size_t count)
{
	return reset(to_path(kobj), attr, buf, count, reset_rdma);
}

static ssize_t reconnects_show(struct kobject *kobj,
			       struct kobj_attribute *attr, char *buf)
{
	struct client_path *path = to_path(kobj);
	int up, failed;

	spin_lock_irq(&path->lock);
	up = path->nr_up;
	failed = path->nr_failed;
	spin_unlock_irq(&path->lock);
	return sysfs_emit(buf, "%d %d\n", up, failed);
}

static ssize_t reconnects_store(struct kobject *kobj,
				struct kobj_attribute *attr,
				const char *buf, size_t count)
{
	return reset(to_path(kobj), attr, buf, count, reset_reconnects);
}

static u32 migrated_from(const struct client_path *path, u32 cpu)
{
	u32 cid, sum = 0;

	for (cid = 0; cid < path->nr_conns; cid++)
		if (path->conn[cid]->cpu == cpu)
			sum += READ_ONCE(path->conn[cid]->migrated);
	return sum;
}

static ssize_t cpu_migration_from_show(struct kobject *kobj,
				       struct kobj_attribute *attr, char *buf)
{
	struct client_path *path = to_path(kobj);
	int cpu, len = 0;

	for_each_possible_cpu(cpu)
		len += sysfs_emit_at(buf, len, "%d ",
				     migrated_from(path, cpu));
	return len + sysfs_emit_at(buf, len, "\n");
}

static ssize_t cpu_migration_from_store(struct kobject *kobj,
					struct kobj_attribute *attr,
					const char *buf, size_t count)
{
	return reset(to_path(kobj), attr, buf, count, reset_migration);
}

static ssize_t cpu_migration_to_show(struct kobject *kobj,
				     struct kobj_attribute *attr, char *buf)
{
	struct client_path *path = to_path(kobj);
	int cpu, len = 0;

	for_each_possible_cpu(cpu)
		len += sysfs_emit_at(buf, len, "%d ",
				     READ_ONCE(per_cpu_ptr(path->stats,
							   cpu)->migrated_to));
	return len + sysfs_emit_at(buf, len, "\n");
}

static ssize_t cpu_migration_to_store(struct kobject *kobj,
				      struct kobj_attribute *attr,
				      const char *buf, size_t count)
{
	return reset(to_path(kobj), attr, buf, count, reset_migration);
}

static ssize_t reset_all_show(struct kobject *kobj,
			      struct kobj_attribute *attr, char *buf)
{
	return sysfs_emit(buf, "Usage: echo 1 > %s\n", attr->attr.name);
}

static ssize_t reset_all_store(struct kobject *kobj,
			       struct kobj_attribute *attr,
			       const char *buf, size_t count)
{
	return reset(to_path(kobj), attr, buf, count, reset_everything);
}

static struct kobj_attribute attr_rdma = __ATTR_RW(rdma);
static struct kobj_attribute attr_reconnects = __ATTR_RW(reconnects);
static struct kobj_attribute attr_cpu_migration_from =
	__ATTR_RW(cpu_migration_from);
static struct kobj_attribute attr_cpu_migration_to =
	__ATTR_RW(cpu_migration_to);
static struct kobj_attribute attr_reset_all = __ATTR_RW(reset_all);

static struct attribute *stats_attrs[] = {
	&attr_rdma.attr,
	&attr_reconnects.attr,
	&attr_cpu_migration_from.attr,
	&attr_cpu_migration_to.attr,
	&attr_reset_all.attr,
	NULL,
};

const struct attribute_group client_stats_group = {
	.name	= "stats",
	.attrs	= stats_attrs,
};
