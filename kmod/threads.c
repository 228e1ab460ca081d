// SPDX-License-Identifier: GPL-2.0-only
/*
 * THREADS: per-thread state that the kernel keeps and reveals, if at all, only
 * to the thread itself.
 *
 * The list is read under RCU, where nothing may sleep, into memory that was
 * allocated before: count, allocate, read, and start over if it has grown
 * meanwhile.
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

/* How often a list that grows while it is read is tried again. */
#define ATTEMPTS 8
/* Threads that may be made between counting and reading. */
#define HEADROOM 16

struct thread_list {
	struct cryo_thread *threads; /* the oldest, in the order they were made */
	u32 nr;                      /* threads, including those that did not fit */
	u32 max;                     /* length of threads */
};

static struct cryo_thread describe(struct task_struct *task, pid_t tid)
{
	struct cryo_thread thread = {
		.tid = tid,
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

/* Counts all threads; fills in no more than there is room for. */
static void collect(struct thread_list *list)
{
	struct pid_namespace *ns = task_active_pid_ns(current);
	struct task_struct *task;
	pid_t tid;

	list->nr = 0;
	rcu_read_lock();
	for_each_thread(current, task) {
		tid = task_pid_nr_ns(task, ns);
		/*
		 * A thread that is being released loses its id before it
		 * leaves the list. One look at the id, not pid_alive() first:
		 * it may be lost in between.
		 */
		if (!tid)
			continue;
		if (list->nr < list->max)
			list->threads[list->nr] = describe(task, tid);
		list->nr++;
	}
	rcu_read_unlock();
}

/* Reads the @wanted oldest threads. The kernel's own limit bounds the memory. */
static int read_list(struct thread_list *list, u32 wanted)
{
	unsigned int attempt;

	for (attempt = 0; attempt < ATTEMPTS; attempt++) {
		list->max = min_t(u32, get_nr_threads(current) + HEADROOM,
				  wanted);
		list->threads = kvmalloc_array(max(list->max, 1U),
					       sizeof(*list->threads),
					       GFP_KERNEL_ACCOUNT);
		if (!list->threads)
			return -ENOMEM;
		collect(list);
		if (list->nr <= list->max || list->max == wanted)
			return 0;
		kvfree(list->threads);
	}
	return -EAGAIN;
}

int cryo_threads(struct cryo_ucmd *ucmd)
{
	struct cryo_threads *cmd = ucmd->cmd;
	struct thread_list list;
	u32 nr;
	int rc;

	rc = cryo_check_threads(cmd);
	if (rc)
		return rc;
	rc = read_list(&list, cmd->max_threads);
	if (rc)
		return rc;

	nr = min(list.nr, list.max);
	if (copy_to_user(u64_to_user_ptr(cmd->threads), list.threads,
			 nr * sizeof(*list.threads)))
		rc = -EFAULT;
	kvfree(list.threads);
	if (rc)
		return rc;

	cmd->nr_threads = list.nr;
	return cryo_ucmd_respond(ucmd, sizeof(*cmd));
}
