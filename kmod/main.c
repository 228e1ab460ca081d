// SPDX-License-Identifier: GPL-2.0-only
/*
 * Cryo's kernel module: /dev/cryo, its table of commands, and the one function
 * that checks a command and passes it on.
 *
 * The device keeps no state, neither per descriptor nor per process. A command
 * works only on the task that calls it, so there is nothing to lock here, and
 * unloading only has to wait for open descriptors.
 */
#include <linux/kernel.h>
#include <linux/miscdevice.h>
#include <linux/module.h>
#include <linux/sched.h>
#include <linux/uaccess.h>

#include "compat.h"
#include "module.h"

/* Room for the structure of any command. */
#define CRYO_ROOM 128

/* What module.h says of a command. */
enum ioctl_kind {
	ASKS,
	ACTS,
};

/**
 * struct ioctl_op - one command
 * @size: of its structure, as this module knows it
 * @min_size: of its structure when the command was new
 * @cmd: its number
 * @feature: the bit by which FEATURES tells of it
 * @kind: a command that acts is refused to a caller under a seccomp filter
 * @execute: the function that carries it out
 */
struct ioctl_op {
	unsigned int size;
	unsigned int min_size;
	unsigned int cmd;
	u64 feature;
	enum ioctl_kind kind;
	int (*execute)(struct cryo_ucmd *ucmd);
};

#define IOCTL_OP(_nr, _feature, _kind, _name, _last)                           \
	[CRYO_CMD_##_nr - CRYO_CMD_BASE] = {                                   \
		.size = sizeof(struct cryo_##_name) +                          \
			BUILD_BUG_ON_ZERO(sizeof(struct cryo_##_name) >        \
					  CRYO_ROOM) +                         \
			BUILD_BUG_ON_ZERO(offsetof(struct cryo_##_name,        \
						   size) != 0) +               \
			BUILD_BUG_ON_ZERO(sizeof(struct cryo_##_name) % 8),    \
		.min_size = offsetofend(struct cryo_##_name, _last),           \
		.cmd = CRYO_IOC_##_nr,                                         \
		.feature = _feature,                                           \
		.kind = _kind,                                                 \
		.execute = cryo_##_name,                                       \
	}

static const struct ioctl_op ioctl_ops[] = CRYO_COMMANDS;

int cryo_features(struct cryo_ucmd *ucmd)
{
	struct cryo_features *cmd = ucmd->cmd;
	bool filtered = cryo_is_filtered();
	size_t i;

	if (cmd->flags)
		return -EOPNOTSUPP;

	cmd->abi_version = CRYO_ABI_VERSION;
	cmd->page_size = PAGE_SIZE;
	cmd->features = filtered ? CRYO_FEATURE_FILTERED : 0;
	for (i = 0; i < ARRAY_SIZE(ioctl_ops); i++) {
		if (ioctl_ops[i].kind == ASKS || !filtered)
			cmd->features |= ioctl_ops[i].feature;
	}
	if (!cryo_may_choose_pid(ucmd->file))
		cmd->features &= ~CRYO_FEATURE_NEXTPID;
	if (IS_ENABLED(CONFIG_MEM_SOFT_DIRTY))
		cmd->features |= CRYO_FEATURE_SOFT_DIRTY;
	if (CRYO_EVENTS_PER_USER)
		cmd->features |= CRYO_FEATURE_EVENTS_PER_USER;
	cmd->scan_max_runs = CRYO_SCAN_MAX_RUNS;
	cmd->event_rate = CRYO_EVENT_RATE;
	return cryo_ucmd_respond(ucmd, sizeof(*cmd));
}

static long cryo_ioctl(struct file *file, unsigned int cmd, unsigned long arg)
{
	struct cryo_ucmd ucmd = {
		.file = file,
		.ubuffer = (void __user *)arg,
	};
	const struct ioctl_op *op;
	u64 buf[CRYO_ROOM / sizeof(u64)];
	unsigned int nr = _IOC_NR(cmd);
	int rc;

	if (nr < CRYO_CMD_BASE || nr - CRYO_CMD_BASE >= ARRAY_SIZE(ioctl_ops))
		return -ENOIOCTLCMD;
	op = &ioctl_ops[nr - CRYO_CMD_BASE];
	if (op->cmd != cmd)
		return -ENOIOCTLCMD;
	if (!current->mm)
		return -EINVAL;
	if (op->kind == ACTS && cryo_is_filtered())
		return -EPERM;

	if (get_user(ucmd.user_size, (u32 __user *)ucmd.ubuffer))
		return -EFAULT;
	if (ucmd.user_size < op->min_size)
		return -EINVAL;
	if (ucmd.user_size > PAGE_SIZE)
		return -E2BIG;

	ucmd.cmd = buf;
	rc = copy_struct_from_user(ucmd.cmd, op->size, ucmd.ubuffer,
				   ucmd.user_size);
	if (rc)
		return rc;
	return op->execute(&ucmd);
}

static const struct file_operations cryo_fops = {
	.owner = THIS_MODULE,
	.unlocked_ioctl = cryo_ioctl,
	.compat_ioctl = compat_ptr_ioctl,
	.llseek = noop_llseek,
};

static struct miscdevice cryo_misc = {
	.minor = MISC_DYNAMIC_MINOR,
	.name = CRYO_DEVICE_NAME,
	.fops = &cryo_fops,
	.mode = 0664,
};

static int __init cryo_init(void)
{
	int rc;

	rc = cryo_events_register();
	if (rc)
		return rc;
	/* Last, because the device may be opened from here on. */
	rc = misc_register(&cryo_misc);
	if (rc)
		goto unregister_events;
	return 0;

unregister_events:
	cryo_events_unregister();
	return rc;
}

static void __exit cryo_exit(void)
{
	misc_deregister(&cryo_misc);
	cryo_events_unregister();
}

module_init(cryo_init);
module_exit(cryo_exit);

MODULE_LICENSE("GPL");
MODULE_DESCRIPTION("Cryo checkpoint and restart: a process saves and restores itself");
MODULE_VERSION("0.1.0");
