// SPDX-License-Identifier: GPL-2.0-only
/*
 * THREADS: per-thread state that the kernel keeps and reveals, if at all, only
 * to the thread itself.
 */
#include <linux/mm.h>
#include <linux/pid_namespace.h>
#include <linux/rcupdate.h>
#include <linux/sched.h>
#include <linux/sched/signal.h>
#include <linux/slab.h>
#include <linux/uaccess.h>

#include "bounds.h"
#include "compat.h"
#include "module.h"

static struct cryo_thread describe(struct task_struct *task)
{
	struct cryo_thread thread = {
		.tid = task_pid_nr_ns(task, task_active_pid_ns(current)),
		.clear_child_tid = (unsigned long)READ_ONCE(task->clear_child_tid),
		.robust_list = cryo_robust_list_of(task),
		.rseq = cryo_rseq_of(task),
		.rseq_len = cryo_rseq_len_of(task),
		.rseq_sig = cryo_rseq_sig_of(task),
		.altstack = READ_ONCE(task->sas_ss_sp),
		.altstack_size = READ_ONCE(task->sas_ss_size),
		.altstack_flags = READ_ONCE(task->sas_ss_flags),
		.pdeath_signal = READ_ONCE(task->pdeath_signal),
	};

	BUILD_BUG_ON(sizeof(thread.name) != TASK_COMM_LEN);
	get_task_comm(thread.name, task);
	if (thread_group_leader(task))
		thread.flags |= CRYO_THREAD_LEADER;
	if (READ_ONCE(task->flags) & PF_EXITING)
		thread.flags |= CRYO_THREAD_EXITING;
	return thread;
}

/* Returns how many threads there are; fills in no more than @max of them. */
static u32 collect(struct cryo_thread *threads, u32 max)
{
	struct task_struct *task;
	u32 nr = 0;

	rcu_read_lock();
	for_each_thread(current, task) {
		if (nr < max)
			threads[nr] = describe(task);
		nr++;
	}
	rcu_read_unlock();
	return nr;
}

int cryo_threads(struct cryo_ucmd *ucmd)
{
	struct cryo_threads *cmd = ucmd->cmd;
	struct cryo_thread *threads;
	u32 max;
	int rc;

	rc = cryo_check_threads(cmd);
	if (rc)
		return rc;

	/* The kernel's own limit on threads bounds the memory. */
	max = min_t(u32, cmd->max_threads, get_nr_threads(current));
	threads = kvmalloc_array(max(max, 1U), sizeof(*threads),
				 GFP_KERNEL_ACCOUNT);
	if (!threads)
		return -ENOMEM;

	cmd->nr_threads = collect(threads, max);
	max = min(max, cmd->nr_threads);
	if (copy_to_user(u64_to_user_ptr(cmd->threads), threads,
			 max * sizeof(*threads)))
		rc = -EFAULT;
	kvfree(threads);
	return rc ? rc : cryo_ucmd_respond(ucmd, sizeof(*cmd));
}
