// SPDX-License-Identifier: GPL-2.0-only
/*
 * Sharing of open files. Pure logic: no kernel state, tested by
 * sharing_kunit.c.
 */
#include <linux/sort.h>

#include "sharing.h"

static int compare(u64 a, u64 b)
{
	return a < b ? -1 : a > b;
}

static int by_fd(const void *a, const void *b)
{
	const struct cryo_fd *x = a, *y = b;

	return compare(x->file.fd, y->file.fd);
}

static int by_key(const void *a, const void *b)
{
	const struct cryo_fd *x = a, *y = b;

	return compare(x->key, y->key) ?: by_fd(a, b);
}

void cryo_find_shared(struct cryo_fd *fds, u32 nr)
{
	u32 i;

	sort(fds, nr, sizeof(*fds), by_key, NULL);
	for (i = 0; i < nr; i++) {
		bool same = i && fds[i].key == fds[i - 1].key;

		fds[i].file.same_as = same ? fds[i - 1].file.same_as :
					     fds[i].file.fd;
	}
	sort(fds, nr, sizeof(*fds), by_fd, NULL);
}
