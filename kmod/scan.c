// SPDX-License-Identifier: GPL-2.0-only
/*
 * SCAN: the classes of a range of the caller's own memory, as runs.
 *
 * The walk fills a small list under mmap_lock; the list is copied to the caller
 * without the lock, since its buffer may have to be faulted in. Between two
 * fills other threads may change the memory: each run was true when it was
 * read.
 */
#include <linux/mm.h>
#include <linux/sched.h>
#include <linux/sched/signal.h>
#include <linux/slab.h>
#include <linux/uaccess.h>

#include "bounds.h"
#include "module.h"
#include "runs.h"
#include "walk.h"

/* Tables read under one hold of mmap_lock: about a millisecond. */
#define TABLES_PER_LOCK 256
/* Times the lock is taken in one call: 32 GiB of small pages. */
#define LOCKS_PER_CALL 64
#define LIST_RUNS (PAGE_SIZE / sizeof(struct cryo_run))

/**
 * struct scan - one SCAN on its way
 * @walk: the walk, with the list it fills
 * @runs: the list of @walk
 * @out: the caller's buffer for the next finished run
 * @left: how many runs still fit there
 * @addr: first page that is in no run yet
 */
struct scan {
	struct cryo_walk walk;
	struct cryo_runs runs;
	struct cryo_run __user *out;
	u32 left;
	unsigned long addr;
};

/* Hand @nr runs from the front of the list to the caller. */
static int scan_deliver(struct scan *scan, u32 nr)
{
	if (copy_to_user(scan->out, scan->runs.run, nr * sizeof(*scan->out)))
		return -EFAULT;
	cryo_runs_drop(&scan->runs, nr);
	scan->out += nr;
	scan->left -= nr;
	return 0;
}

static int scan_fill(struct scan *scan, unsigned long end)
{
	scan->runs.max = min_t(u32, LIST_RUNS, scan->left);
	scan->walk.budget = TABLES_PER_LOCK;
	if (mmap_read_lock_killable(scan->walk.mm))
		return -EINTR;
	scan->addr = cryo_walk_range(&scan->walk, scan->addr, end);
	mmap_read_unlock(scan->walk.mm);
	return 0;
}

static int scan_range(struct scan *scan, unsigned long end)
{
	unsigned int locks;
	int rc;

	for (locks = 0; locks < LOCKS_PER_CALL; locks++) {
		rc = scan_fill(scan, end);
		if (rc)
			return rc;
		if (scan->addr == end)
			break;
		/* Budget left over means that the list was full. */
		if (scan->walk.budget && scan->runs.max == scan->left)
			break;
		rc = scan_deliver(scan, cryo_runs_finished(&scan->runs));
		if (rc)
			return rc;
		if (signal_pending(current) && scan->runs.nr)
			break;
		cond_resched();
	}
	return scan_deliver(scan, scan->runs.nr);
}

int cryo_scan(struct cryo_ucmd *ucmd)
{
	struct cryo_scan *cmd = ucmd->cmd;
	struct mm_struct *mm = current->mm;
	struct scan scan = {
		.walk = { .mm = mm, .runs = &scan.runs, .want = cmd->want },
		.out = u64_to_user_ptr(cmd->runs),
		.left = min_t(u32, cmd->max_runs, CRYO_SCAN_MAX_RUNS),
		.addr = cmd->start,
	};
	u32 room = scan.left;
	struct cryo_run *list;
	int rc;

	rc = cryo_check_scan(cmd);
	if (rc)
		return rc;
	rc = cryo_check_range(cmd->start, cmd->end, mm->task_size, PAGE_SIZE);
	if (rc)
		return rc;

	list = kmalloc_array(LIST_RUNS, sizeof(*list), GFP_KERNEL_ACCOUNT);
	if (!list)
		return -ENOMEM;
	cryo_runs_init(&scan.runs, list, LIST_RUNS, PAGE_SHIFT);
	rc = scan_range(&scan, cmd->end);
	kfree(list);
	if (rc)
		return rc;

	cmd->next = scan.addr;
	cmd->nr_runs = room - scan.left;
	return cryo_ucmd_respond(ucmd, sizeof(*cmd));
}
