// SPDX-License-Identifier: GPL-2.0-only
/*
 * What the commands and the dispatcher that calls them (main.c) share: the
 * answer to the caller, and whether the caller is under a seccomp filter.
 */
#include <linux/kernel.h>
#include <linux/sched.h>
#include <linux/seccomp.h>
#include <linux/uaccess.h>

#include "module.h"

int cryo_ucmd_respond(struct cryo_ucmd *ucmd, size_t size)
{
	if (copy_to_user(ucmd->ubuffer, ucmd->cmd,
			 min_t(size_t, ucmd->user_size, size)))
		return -EFAULT;
	return 0;
}

/*
 * A seccomp filter of the caller, or of a container or service manager around
 * it, can tell system calls apart, but sees a command only as an ioctl with a
 * pointer.
 */
bool cryo_is_filtered(void)
{
	return seccomp_mode(&current->seccomp) != SECCOMP_MODE_DISABLED;
}
