// SPDX-License-Identifier: GPL-2.0
/*
 * Sends patterns of odd lengths to the echo server, reads them back and checks
 * every byte.
 *
 * Loading the module runs the test and fails if anything was wrong.  There is
 * one chain of requests per tag, and nothing like a block layer: a request is
 * sent from a work item, its completion queues the work item again, which
 * checks and goes on with the next step.  A round is PUT, GET, and sometimes
 * FAIL.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/completion.h>
#include <linux/hash.h>
#include <linux/highmem.h>
#include <linux/module.h>
#include <linux/slab.h>
#include <linux/workqueue.h>

#include "rtrs/rtrs.h"
#include "echo.h"

#define ECHO_MAX_PATHS	6
#define ECHO_ERRNO	EREMOTEIO
#define ECHO_TIMEOUT	(600 * HZ)

static char *path[ECHO_MAX_PATHS];
static unsigned int nr_paths;
module_param_array(path, charp, &nr_paths, 0444);
MODULE_PARM_DESC(path, "paths to the server");

static char *name = "echo";
module_param(name, charp, 0444);
MODULE_PARM_DESC(name, "session name");

static unsigned int rounds = 20;
module_param(rounds, uint, 0644);
MODULE_PARM_DESC(rounds, "rounds of each tag; may be lowered while it runs");

static unsigned int parallel = 64;
module_param(parallel, uint, 0444);
MODULE_PARM_DESC(parallel, "tags to use at most");

static unsigned int poll_queues;
module_param(poll_queues, uint, 0444);
MODULE_PARM_DESC(poll_queues, "poll queues; all requests travel on them");

enum echo_step {
	ECHO_START,
	ECHO_PUTTING,
	ECHO_GETTING,
	ECHO_FAILING,
};

/* One tag and its chain of requests */
struct echo_chain {
	struct rtrs_request	req;
	struct echo_msg		msg;
	struct delayed_work	work;
	enum echo_step		step;
	unsigned int		round;
	u32			len;
	u32			offset;
	int			error;
	struct page		**page;
	struct scatterlist	*sgl;
};

static struct rtrs_client *clt;
static struct rtrs_client_limits lim;
static struct workqueue_struct *echo_wq;
static struct echo_chain *chains;
static unsigned int nr_pages;
static atomic_t running;
static atomic_t failed;
static atomic_t requests;
static atomic64_t checked;
static DECLARE_COMPLETION(finished);

/* The byte at a place of what is sent in a round: any two differ soon. */
static u8 echo_byte(const struct echo_chain *chain, u32 i)
{
	return hash_32(chain->req.tag * 2654435761U ^ chain->round * 40503U ^ i, 8);
}

static u8 *echo_at(struct echo_chain *chain, u32 i)
{
	i += chain->offset;
	return (u8 *)page_address(chain->page[i / PAGE_SIZE]) + i % PAGE_SIZE;
}

static void echo_fill(struct echo_chain *chain)
{
	u32 i;

	for (i = 0; i < chain->len; i++)
		*echo_at(chain, i) = echo_byte(chain, i);
}

static void echo_wipe(struct echo_chain *chain)
{
	unsigned int i;

	for (i = 0; i < nr_pages; i++)
		memset(page_address(chain->page[i]), 0xee, PAGE_SIZE);
}

static bool echo_check(struct echo_chain *chain)
{
	u32 room = nr_pages * PAGE_SIZE - chain->offset;
	u32 i;

	for (i = 0; i < room; i++) {
		u8 wanted = i < chain->len ? echo_byte(chain, i) : 0xee;

		if (*echo_at(chain, i) == wanted)
			continue;
		pr_err("tag %u, round %u, byte %u of %u: %02x instead of %02x\n", chain->req.tag,
		       chain->round, i, chain->len, *echo_at(chain, i), wanted);
		return false;
	}
	atomic64_add(chain->len, &checked);
	return true;
}

/* Small, large, odd, empty; from any place of the first page. */
static void echo_choose(struct echo_chain *chain)
{
	u32 seed = hash_32(chain->req.tag * 31 + chain->round * 131071, 32);
	u32 most = min_t(u32, lim.max_io_size, nr_pages * PAGE_SIZE);

	chain->offset = chain->round % 3 ? 0 : seed % PAGE_SIZE;
	if (chain->round % 4 == 3)
		most = 9000;
	most = min_t(u32, most, nr_pages * PAGE_SIZE - chain->offset);
	chain->len = chain->round % 16 == 15 ? 0 : seed % (most + 1);
	if (chain->round == 0)
		chain->len = most;
}

static void echo_map(struct echo_chain *chain)
{
	struct rtrs_request *req = &chain->req;
	u32 left = chain->len, at = chain->offset;

	req->nents = DIV_ROUND_UP(chain->offset + chain->len, PAGE_SIZE);
	req->data_len = chain->len;
	req->sgl = NULL;
	if (!chain->len) {
		req->nents = 0;
		return;
	}
	sg_init_table(chain->sgl, req->nents);
	for (req->nents = 0; left; req->nents++) {
		u32 part = min_t(u32, left, PAGE_SIZE - at);

		sg_set_page(&chain->sgl[req->nents], chain->page[req->nents], part, at);
		left -= part;
		at = 0;
	}
	req->sgl = chain->sgl;
}

static void echo_done(struct rtrs_request *req, int error)
{
	struct echo_chain *chain = container_of(req, struct echo_chain, req);

	chain->error = error;
	queue_delayed_work(echo_wq, &chain->work, 0);
}

/* Look at the answer; false ends the chain. */
static bool echo_answered(struct echo_chain *chain)
{
	int wanted = chain->step == ECHO_FAILING ? -ECHO_ERRNO : 0;

	if (chain->error != wanted) {
		pr_err("tag %u, round %u, step %u, %u bytes: answered with %d\n", chain->req.tag,
		       chain->round, chain->step, chain->len, chain->error);
		return false;
	}
	return chain->step != ECHO_GETTING || echo_check(chain);
}

static void echo_next(struct echo_chain *chain)
{
	bool sometimes = chain->round % 8 == 7;

	switch (chain->step) {
	case ECHO_PUTTING:
		chain->step = ECHO_GETTING;
		return;
	case ECHO_GETTING:
		if (sometimes) {
			chain->step = ECHO_FAILING;
			return;
		}
		break;
	default:
		break;
	}
	if (chain->step != ECHO_START)
		chain->round++;
	chain->step = ECHO_PUTTING;
}

static void echo_prepare(struct echo_chain *chain)
{
	static const enum echo_op op[] = {
		[ECHO_PUTTING] = ECHO_PUT, [ECHO_GETTING] = ECHO_GET, [ECHO_FAILING] = ECHO_FAIL,
	};
	bool failing = chain->step == ECHO_FAILING;

	if (chain->step == ECHO_PUTTING) {
		echo_choose(chain);
		echo_fill(chain);
	} else if (chain->step == ECHO_GETTING) {
		echo_wipe(chain);
	}
	chain->req.dir = chain->step == ECHO_GETTING ? RTRS_DIR_READ : RTRS_DIR_WRITE;
	echo_map(chain);
	chain->msg.op = cpu_to_le16(op[chain->step]);
	chain->msg.arg = cpu_to_le16(failing ? ECHO_ERRNO : chain->req.tag);
	chain->msg.len = cpu_to_le32(chain->len);
	chain->req.usr_len = ECHO_MSG_MIN +
			     chain->round % (sizeof(chain->msg) - ECHO_MSG_MIN + 1);
}

static void echo_end(struct echo_chain *chain, bool good)
{
	if (!good)
		atomic_inc(&failed);
	if (atomic_dec_and_test(&running))
		complete(&finished);
}

static void echo_work(struct work_struct *work)
{
	struct echo_chain *chain = container_of(to_delayed_work(work), struct echo_chain, work);
	int err;

	/* A refused submission left no answer. */
	if (chain->error != -EAGAIN) {
		if (chain->step != ECHO_START && !echo_answered(chain)) {
			echo_end(chain, false);
			return;
		}
		echo_next(chain);
	}
	if (chain->round >= READ_ONCE(rounds)) {
		echo_end(chain, true);
		return;
	}
	if (chain->error != -EAGAIN)
		echo_prepare(chain);
	chain->error = 0;
	err = rtrs_client_submit(clt, &chain->req, chain->req.tag % 4 != 0);
	if (!err) {
		atomic_inc(&requests);
		/* The completion may have taken over. Some leave sending to us. */
		rtrs_client_commit(clt, chain->req.queue);
	} else if (err == -EAGAIN || err == -ENOMEM) {
		chain->error = -EAGAIN;
		rtrs_client_commit(clt, chain->req.queue);
		queue_delayed_work(echo_wq, &chain->work, 1);
	} else {
		pr_err("tag %u, round %u: not sent, %d\n", chain->req.tag, chain->round, err);
		echo_end(chain, false);
	}
}

static void echo_free(void)
{
	unsigned int i, j;

	for (i = 0; chains && i < parallel; i++) {
		for (j = 0; chains[i].page && j < nr_pages; j++)
			if (chains[i].page[j])
				__free_page(chains[i].page[j]);
		kfree(chains[i].page);
		kvfree(chains[i].sgl);
	}
	kvfree(chains);
}

static int echo_alloc(void)
{
	unsigned int i, j;

	parallel = min(parallel, lim.nr_tags);
	nr_pages = min(lim.max_segments, lim.max_io_size / (u32)PAGE_SIZE + 1);
	chains = kvcalloc(parallel, sizeof(*chains), GFP_KERNEL);
	if (!chains)
		return -ENOMEM;
	for (i = 0; i < parallel; i++) {
		struct echo_chain *chain = &chains[i];

		chain->page = kcalloc(nr_pages, sizeof(*chain->page), GFP_KERNEL);
		chain->sgl = kvcalloc(nr_pages, sizeof(*chain->sgl), GFP_KERNEL);
		if (!chain->page || !chain->sgl)
			return -ENOMEM;
		for (j = 0; j < nr_pages; j++) {
			chain->page[j] = alloc_page(GFP_KERNEL);
			if (!chain->page[j])
				return -ENOMEM;
		}
		chain->req.tag = i;
		chain->req.queue = poll_queues ? lim.nr_queues + i % lim.nr_poll_queues :
						 i % lim.nr_queues;
		chain->req.usr = &chain->msg;
		chain->req.done = echo_done;
		INIT_DELAYED_WORK(&chain->work, echo_work);
	}
	return 0;
}

/* Wait until all chains have ended; false if they do not. */
static bool echo_wait(void)
{
	unsigned long deadline = jiffies + ECHO_TIMEOUT;
	u32 i;

	while (poll_queues && !completion_done(&finished) && time_before(jiffies, deadline)) {
		for (i = 0; i < lim.nr_poll_queues; i++)
			rtrs_client_poll(clt, lim.nr_queues + i);
		cond_resched();
	}
	/* A single long wait looks like a hung task. */
	while (!wait_for_completion_timeout(&finished, HZ))
		if (time_after(jiffies, deadline))
			return false;
	return true;
}

static int echo_run(void)
{
	unsigned int i;
	int err;

	err = rtrs_client_query(clt, &lim);
	if (err)
		return err;
	pr_info("depth %u, %u tags, %u bytes, %u segments, message %u, queues %u + %u\n",
		lim.queue_depth, lim.nr_tags, lim.max_io_size, lim.max_segments, lim.max_usr_len,
		lim.nr_queues, lim.nr_poll_queues);
	if (lim.nr_poll_queues != poll_queues || lim.max_usr_len < sizeof(struct echo_msg))
		return -EPROTO;
	err = echo_alloc();
	if (err)
		return err;
	atomic_set(&running, parallel);
	for (i = 0; i < parallel; i++)
		queue_delayed_work(echo_wq, &chains[i].work, 0);
	if (!echo_wait())
		pr_err("%d chains have not ended\n", atomic_read(&running));
	pr_info("%d requests, %lld bytes checked, %d chains failed\n", atomic_read(&requests),
		atomic64_read(&checked), atomic_read(&failed));
	return atomic_read(&failed) || atomic_read(&running) ? -EIO : 0;
}

static int echo_open(void)
{
	static struct rtrs_addr addr[ECHO_MAX_PATHS];
	const struct rtrs_client_config cfg = {
		.name		 = name,
		.path		 = addr,
		.nr_paths	 = nr_paths,
		.port		 = ECHO_PORT,
		.nr_poll_queues	 = poll_queues,
		.reconnect_delay = 10,
		.max_reconnects	 = -1,
	};
	unsigned int i;
	int err;

	for (i = 0; i < nr_paths; i++) {
		err = rtrs_addr_parse(path[i], strlen(path[i]), ECHO_PORT, &addr[i]);
		if (err)
			return err;
	}
	clt = rtrs_client_open(&cfg);
	return PTR_ERR_OR_ZERO(clt);
}

static void echo_close(void)
{
	unsigned int i;

	/* Nobody submits any more. What is still in flight is completed by the close. */
	WRITE_ONCE(rounds, 0);
	for (i = 0; chains && i < parallel; i++)
		flush_delayed_work(&chains[i].work);
	rtrs_client_close(clt);
}

static int __init echo_client_init(void)
{
	int err;

	echo_wq = alloc_workqueue("rtrs_echo_client", WQ_UNBOUND, 0);
	if (!echo_wq)
		return -ENOMEM;
	err = echo_open();
	if (!err) {
		err = echo_run();
		echo_close();
	}
	destroy_workqueue(echo_wq);
	echo_free();
	return err;
}

static void __exit echo_client_exit(void)
{
}

module_init(echo_client_init);
module_exit(echo_client_exit);

MODULE_DESCRIPTION("RTRS echo client, for tests");
MODULE_LICENSE("GPL");
