/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What DUMP and RESTORE share: a sequence of ranges of the caller's memory that
 * is worked off piece by piece, and the file at the other end.
 */
#ifndef _CRYO_RANGES_H
#define _CRYO_RANGES_H

#include <linux/fs.h>
#include <linux/types.h>
#include <linux/cryo.h>

/**
 * struct cryo_ranges - where one is in a sequence of ranges
 * @list: the caller's array; each entry is read once, when its turn comes
 * @left: how many of them have not been read
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
 * Makes sure that there is a current range that is not used up. 1: there is,
 * 0: the sequence is at its end; or EINVAL, EFAULT.
 */
int cryo_ranges_next(struct cryo_ranges *ranges);

/* Goes @count bytes ahead. EINVAL if the sequence is shorter. */
int cryo_ranges_skip(struct cryo_ranges *ranges, u64 count);

/*
 * The caller's file that bytes go to or come from. EINVAL for what is neither a
 * regular file nor a pipe nor a socket. To be given back with fput().
 */
struct file *cryo_get_file(int fd);

/*
 * Where in @file the byte @done of a sequence that begins at @offset lies. Pipes
 * and sockets have no positions; sockets refuse every one but 0.
 */
loff_t cryo_position(const struct file *file, u64 offset, u64 done);

/* Errors of the kernel's own that mean "interrupted". */
int cryo_plain_error(ssize_t rc);

#endif /* _CRYO_RANGES_H */
