// SPDX-License-Identifier: GPL-2.0-only
/*
 * Sharing of open files. Pure logic: no kernel state, tested by
 * sharing_kunit.c.
 */
#include <linux/bits.h>
#include <linux/minmax.h>
#include <linux/sched.h>

#include "sharing.h"

#define DIGIT_BITS 8
#define DIGITS BIT(DIGIT_BITS)

static unsigned int digit(const struct cryo_fd *fd, unsigned int shift)
{
	return fd->key >> shift & (DIGITS - 1);
}

/* There may be very many descriptors; other tasks must be able to run. */
static void let_others_run(u32 i)
{
	if (i % 1024 == 0)
		cond_resched();
}

/* One step of a radix sort: puts @from into @to, ordered by one digit of the keys. */
static void sort_by_digit(const struct cryo_fd *fds, u32 nr, unsigned int shift,
			  const u32 *from, u32 *to)
{
	u32 place[DIGITS] = {};
	u32 i, before = 0;

	for (i = 0; i < nr; i++) {
		place[digit(&fds[i], shift)]++;
		let_others_run(i);
	}
	for (i = 0; i < DIGITS; i++) {
		u32 count = place[i];

		place[i] = before;
		before += count;
	}
	for (i = 0; i < nr; i++) {
		to[place[digit(&fds[from[i]], shift)]++] = from[i];
		let_others_run(i);
	}
}

void cryo_find_shared(struct cryo_fd *fds, u32 nr, u32 *order, u32 *spare)
{
	unsigned long differ = 0;
	unsigned int shift;
	u32 i;

	for (i = 0; i < nr; i++) {
		order[i] = i;
		differ |= fds[i].key ^ fds[0].key;
		let_others_run(i);
	}
	/* The sort is stable: of equal keys the lowest descriptor comes first. */
	for (shift = 0; shift < BITS_PER_LONG; shift += DIGIT_BITS) {
		if (!(differ >> shift & (DIGITS - 1)))
			continue;
		sort_by_digit(fds, nr, shift, order, spare);
		swap(order, spare);
	}
	for (i = 0; i < nr; i++) {
		struct cryo_fd *fd = &fds[order[i]];
		const struct cryo_fd *last = i ? &fds[order[i - 1]] : NULL;
		bool same = last && last->key == fd->key;

		fd->file.same_as = same ? last->file.same_as : fd->file.fd;
		let_others_run(i);
	}
}
