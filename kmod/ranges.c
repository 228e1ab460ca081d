// SPDX-License-Identifier: GPL-2.0-only
/*
 * Sequences of ranges, and the files at the other end. See ranges.h.
 */
#include <linux/err.h>
#include <linux/file.h>
#include <linux/mm.h>
#include <linux/sched.h>
#include <linux/uaccess.h>

#include "bounds.h"
#include "ranges.h"

int cryo_ranges_next(struct cryo_ranges *ranges)
{
	struct cryo_range range;
	int rc;

	if (ranges->at < ranges->end)
		return 1;
	if (!ranges->left)
		return 0;
	if (copy_from_user(&range, ranges->list, sizeof(range)))
		return -EFAULT;
	rc = cryo_check_range(range.start, range.end, current->mm->task_size,
			      PAGE_SIZE);
	if (rc)
		return rc;
	ranges->list++;
	ranges->left--;
	ranges->at = range.start;
	ranges->end = range.end;
	return 1;
}

int cryo_ranges_skip(struct cryo_ranges *ranges, u64 count)
{
	while (count) {
		u64 part;
		int rc = cryo_ranges_next(ranges);

		if (rc <= 0)
			return rc ? rc : -EINVAL;
		part = min(count, ranges->end - ranges->at);
		ranges->at += part;
		count -= part;
		/* A long list must not delay a fatal signal. */
		if (fatal_signal_pending(current))
			return -EINTR;
		cond_resched();
	}
	return 0;
}

struct file *cryo_get_file(int fd)
{
	struct file *file = fget(fd);
	umode_t mode;

	if (!file)
		return ERR_PTR(-EBADF);
	mode = file_inode(file)->i_mode;
	if (S_ISREG(mode) || S_ISFIFO(mode) || S_ISSOCK(mode))
		return file;
	fput(file);
	return ERR_PTR(-EINVAL);
}

loff_t cryo_position(const struct file *file, u64 offset, u64 done)
{
	return S_ISREG(file_inode(file)->i_mode) ? offset + done : 0;
}

int cryo_plain_error(ssize_t rc)
{
	switch (rc) {
	case -ERESTARTSYS:
	case -ERESTARTNOINTR:
	case -ERESTARTNOHAND:
	case -ERESTART_RESTARTBLOCK:
		return -EINTR;
	default:
		return rc;
	}
}
