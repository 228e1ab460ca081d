// SPDX-License-Identifier: GPL-2.0-only
/*
 * NEXTPID: the pid that the next task made in the caller's pid namespace gets.
 *
 * The kernel hands out pids in order, from a cursor. This moves the cursor of
 * the caller's own namespace, never that of a parent: a container chooses
 * nothing outside. Nothing is reserved and nothing can collide, since the
 * kernel passes over pids in use; whoever forks first gets the pid.
 *
 * Choosing pids is a privilege all the same: it lets one take the pid that a
 * careless program still believes to be another process's.
 */
#include <linux/idr.h>
#include <linux/moduleparam.h>
#include <linux/nsproxy.h>
#include <linux/pid_namespace.h>
#include <linux/sched.h>
#include <linux/threads.h>

#include "bounds.h"
#include "module.h"

static bool nextpid_for_all;
module_param(nextpid_for_all, bool, 0644);
MODULE_PARM_DESC(nextpid_for_all,
		 "Every user may choose pids in its own pid namespace");

/*
 * Who has CAP_CHECKPOINT_RESTORE over the namespace needs no module for it:
 * clone3() takes a pid from him.
 */
bool cryo_may_choose_pid(struct file *file)
{
	return file->f_mode & FMODE_WRITE || READ_ONCE(nextpid_for_all);
}

int cryo_nextpid(struct cryo_ucmd *ucmd)
{
	struct cryo_nextpid *cmd = ucmd->cmd;
	struct pid_namespace *ns = task_active_pid_ns(current);
	int rc;

	rc = cryo_check_nextpid(cmd, PID_MAX_LIMIT);
	if (rc)
		return rc;
	if (!cryo_may_choose_pid(ucmd->file))
		return -EPERM;
	if (current->nsproxy->pid_ns_for_children != ns)
		return -EXDEV;
	cmd->previous = idr_get_cursor(&ns->idr);
	rc = cryo_ucmd_respond(ucmd, sizeof(*cmd));
	if (rc)
		return rc;

	/*
	 * One store to an int that the allocator reads under a lock of its
	 * own, which is not ours to take. A fork at the same time may undo it:
	 * that is the race user space has to look for anyway.
	 */
	idr_set_cursor(&ns->idr, cmd->pid);
	return 0;
}
