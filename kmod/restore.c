// SPDX-License-Identifier: GPL-2.0-only
/*
 * RESTORE: builds the caller's address space from descriptors: unmaps what is
 * there, maps, and fills from a file.
 *
 * User space has parsed the image; the module gets only numbers, and checks
 * each. It uses the kernel's own entry points: vm_munmap() and vm_mmap() with
 * their limits and security hooks, the file's read method, and page faults for
 * the filled memory. It grants nothing that munmap(2), mmap(2) and read(2)
 * would refuse, and grants nothing at all to a caller under a seccomp filter,
 * which may deny one of them. Registers, segment bases and the mm's own fields
 * are left to the system calls that set them (arch_prctl, prctl, rt_sigreturn),
 * whose checks are better than a copy of them.
 *
 * The caller's descriptors are checked twice: once before anything is unmapped,
 * so that a wrong one does no harm, and again as each is used, so that changing
 * it in between gains nothing.
 */
#include <linux/err.h>
#include <linux/file.h>
#include <linux/fs.h>
#include <linux/mm.h>
#include <linux/mman.h>
#include <linux/ptrace.h>
#include <linux/sched/signal.h>
#include <linux/sched/task_stack.h>
#include <linux/uaccess.h>
#include <linux/uio.h>

#include "bounds.h"
#include "compat.h"
#include "module.h"
#include "ranges.h"

/* Bytes read at a time; pending signals are checked in between. */
#define PIECE SZ_4M

static int get_region(const struct cryo_restore *cmd, u32 i, u64 floor,
		      struct cryo_region *region)
{
	const struct cryo_region __user *list = u64_to_user_ptr(cmd->regions);

	if (copy_from_user(region, list + i, sizeof(*region)))
		return -EFAULT;
	return cryo_check_region(region, cmd, floor, current->mm->task_size,
				 PAGE_SIZE);
}

/* The caller must be able to continue with the kept memory alone. */
static int check_caller(const struct cryo_ucmd *ucmd)
{
	const struct cryo_restore *cmd = ucmd->cmd;
	struct pt_regs *regs = task_pt_regs(current);

	if (!cryo_is_kept(cmd, (unsigned long)ucmd->ubuffer, 1,
			  ucmd->user_size) ||
	    !cryo_is_kept(cmd, instruction_pointer(regs), 1, 1) ||
	    !cryo_is_kept(cmd, user_stack_pointer(regs), 1, sizeof(long)))
		return -EINVAL;
	return 0;
}

static int check_all(const struct cryo_restore *cmd)
{
	struct cryo_ranges ranges = {
		.list = u64_to_user_ptr(cmd->ranges),
		.left = cmd->nr_ranges,
	};
	u64 floor = 0;
	u32 i;
	int rc;

	for (i = 0; i < cmd->nr_regions; i++) {
		struct cryo_region region;

		rc = get_region(cmd, i, floor, &region);
		if (rc)
			return rc;
		floor = region.end;
		if (fatal_signal_pending(current))
			return -EINTR;
		cond_resched();
	}
	for (;;) {
		rc = cryo_ranges_next(&ranges);
		if (rc <= 0)
			return rc;
		if (ranges.at < cmd->keep_end && ranges.end > cmd->keep_start)
			return -EINVAL;
		ranges.at = ranges.end;
		if (fatal_signal_pending(current))
			return -EINTR;
		cond_resched();
	}
}

static int clear(const struct cryo_restore *cmd)
{
	int rc = 0;

	if (cmd->keep_start)
		rc = vm_munmap(0, cmd->keep_start);
	if (!rc && cmd->keep_end < current->mm->task_size)
		rc = vm_munmap(cmd->keep_end,
			       current->mm->task_size - cmd->keep_end);
	return rc;
}

static int map_file(const struct cryo_region *region, struct file *file)
{
	unsigned long flags = MAP_FIXED_NOREPLACE;
	unsigned long at;

	flags |= region->flags & CRYO_REGION_SHARED ? MAP_SHARED : MAP_PRIVATE;
	if (region->flags & CRYO_REGION_NORESERVE)
		flags |= MAP_NORESERVE;
	if (region->flags & CRYO_REGION_GROWSDOWN)
		flags |= MAP_GROWSDOWN;
	if (!file)
		flags |= MAP_ANONYMOUS;
	at = vm_mmap(file, region->start, region->end - region->start,
		     region->prot, flags, region->offset);
	return IS_ERR_VALUE(at) ? (int)at : 0;
}

static int map(const struct cryo_region *region)
{
	struct file *file;
	int rc;

	/* Another thread may have put the whole process under a filter meanwhile. */
	if (cryo_is_filtered())
		return -EPERM;
	if (region->fd == -1)
		return map_file(region, NULL);
	file = fget(region->fd);
	if (!file)
		return -EBADF;
	rc = map_file(region, file);
	fput(file);
	return rc;
}

static int map_all(struct cryo_restore *cmd)
{
	while (cmd->mapped < cmd->nr_regions) {
		struct cryo_region region;
		int rc;

		rc = get_region(cmd, cmd->mapped, 0, &region);
		if (!rc)
			rc = map(&region);
		if (rc)
			return rc;
		cmd->mapped++;
		if (fatal_signal_pending(current))
			return -EINTR;
		cond_resched();
	}
	return 0;
}

static int fill_all(struct cryo_restore *cmd, struct file *file)
{
	struct cryo_ranges ranges = {
		.list = u64_to_user_ptr(cmd->ranges),
		.left = cmd->nr_ranges,
	};
	int rc;

	rc = cryo_ranges_skip(&ranges, cmd->done);
	while (!rc) {
		loff_t pos = cryo_position(file, cmd->offset, cmd->done);
		struct iov_iter iter;
		ssize_t n;
		u64 part;

		rc = cryo_ranges_next(&ranges);
		if (rc <= 0)
			return rc;
		if (ranges.at < cmd->keep_end && ranges.end > cmd->keep_start)
			return -EINVAL;
		part = min_t(u64, ranges.end - ranges.at, PIECE);
		if (part > S64_MAX - cmd->offset - cmd->done)
			return -EFBIG;
		iov_iter_ubuf(&iter, ITER_DEST, u64_to_user_ptr(ranges.at),
			      part);
		n = vfs_iter_read(file, &iter, &pos, 0);
		if (n <= 0)
			return n ? cryo_plain_error(n) : -EIO;
		ranges.at += n;
		cmd->done += n;
		rc = signal_pending(current) ? -EINTR : 0;
		cond_resched();
	}
	return rc;
}

static int restore(struct cryo_restore *cmd, struct file *file)
{
	int rc;

	if (!cmd->mapped && !cmd->done) {
		rc = clear(cmd);
		if (rc)
			return rc;
	}
	rc = map_all(cmd);
	if (!rc && file)
		rc = fill_all(cmd, file);
	return rc;
}

int cryo_restore(struct cryo_ucmd *ucmd)
{
	struct cryo_restore *cmd = ucmd->cmd;
	struct file *file = NULL;
	u32 mapped = cmd->mapped;
	u64 done = cmd->done;
	int rc;

	rc = cryo_check_restore(cmd, current->mm->task_size, PAGE_SIZE);
	if (!rc)
		rc = check_caller(ucmd);
	if (!rc)
		rc = check_all(cmd);
	if (rc)
		return rc;
	if (cmd->nr_ranges) {
		file = cryo_get_file(cmd->fd);
		if (IS_ERR(file))
			return PTR_ERR(file);
	}
	rc = restore(cmd, file);
	if (file)
		fput(file);
	/* Partial progress counts as success; the next call meets the error again. */
	if (!rc || cmd->mapped != mapped || cmd->done != done)
		rc = cryo_ucmd_respond(ucmd, sizeof(*cmd));
	return rc;
}
