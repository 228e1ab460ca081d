/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Shared by DUMP and RESTORE: a sequence of ranges of the caller's memory,
 * processed piece by piece, and the file at the other end.
 */
#ifndef _CRYO_RANGES_H
#define _CRYO_RANGES_H

#include <linux/fs.h>
#include <linux/types.h>
#include <linux/cryo.h>

/**
 * struct cryo_ranges - a position in a sequence of ranges
 * @list: the caller's array; each entry is read once, when it is reached
 * @left: how many entries have not been read
 * @at: next byte of the current range
 * @end: of the current range
 */
struct cryo_ranges {
	const struct cryo_range __user *list;
	u32 left;
	u64 at;
	u64 end;
};

/*
 * Makes sure that there is a current range with bytes left. Returns 1 if there
 * is one, 0 at the end of the sequence, or EINVAL or EFAULT.
 */
int cryo_ranges_next(struct cryo_ranges *ranges);

/* Skips @count bytes. EINVAL if the sequence is shorter. */
int cryo_ranges_skip(struct cryo_ranges *ranges, u64 count);

/*
 * The caller's file that bytes go to or come from. EINVAL unless it is a
 * regular file, a pipe or a socket. Release it with fput().
 */
struct file *cryo_get_file(int fd);

/*
 * The position in @file of byte @done of a sequence that begins at @offset.
 * Pipes and sockets have no positions; sockets refuse any but 0.
 */
loff_t cryo_position(const struct file *file, u64 offset, u64 done);

/* Turns the kernel-internal errors that mean "interrupted" into EINTR. */
int cryo_plain_error(ssize_t rc);

#endif /* _CRYO_RANGES_H */
