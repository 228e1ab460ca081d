/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Which descriptors share one open file.
 */
#ifndef _CRYO_SHARING_H
#define _CRYO_SHARING_H

#include <linux/types.h>
#include <linux/cryo.h>

/**
 * struct cryo_fd - a descriptor and the identity of its open file
 * @key: equal for two descriptors if, and only if, they share an open file;
 *	 only compared, and never passed to user space
 * @file: what user space gets; all but same_as is filled in already
 */
struct cryo_fd {
	unsigned long key;
	struct cryo_file file;
};

/*
 * Sets same_as of each of @fds, which are in ascending order of descriptors.
 * @order and @spare each have room for @nr numbers. May sleep; the work is
 * linear in @nr, whatever the keys.
 */
void cryo_find_shared(struct cryo_fd *fds, u32 nr, u32 *order, u32 *spare);

#endif /* _CRYO_SHARING_H */
