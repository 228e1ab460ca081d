/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Which descriptors share one open file.
 */
#ifndef _CRYO_SHARING_H
#define _CRYO_SHARING_H

#include <linux/types.h>
#include <linux/cryo.h>

/**
 * struct cryo_fd - a descriptor with what its open file is known by
 * @key: the same for two descriptors if, and only if, their open file is; only
 *	compared, and never told to user space
 * @file: what user space is told; all but same_as is there already
 */
struct cryo_fd {
	unsigned long key;
	struct cryo_file file;
};

/*
 * Set same_as of each of @fds, which stand in the order of descriptors. @order
 * and @spare are room for @nr numbers each. May sleep; the work grows with @nr,
 * whatever the keys.
 */
void cryo_find_shared(struct cryo_fd *fds, u32 nr, u32 *order, u32 *spare);

#endif /* _CRYO_SHARING_H */
