// SPDX-License-Identifier: GPL-2.0-only
/*
 * NEXTPID: sets the pid of the next task made in the caller's pid namespace.
 *
 * The kernel hands out pids in order, from a cursor. This moves the cursor of
 * the caller's own namespace, never that of a parent, so a container affects
 * nothing outside. Nothing is reserved and nothing can collide, since the
 * kernel passes over pids in use; the next fork gets the pid.
 *
 * Choosing pids is still a privilege: a process could take a pid that a
 * careless program believes to belong to another process.
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
 * A caller with CAP_CHECKPOINT_RESTORE over the namespace does not need the
 * module: clone3() accepts a pid from it.
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
	 * One store to an int that the allocator reads under its own lock,
	 * which is not exported. A concurrent fork may undo it: user space has
	 * to check for that race anyway.
	 */
	idr_set_cursor(&ns->idr, cmd->pid);
	return 0;
}
