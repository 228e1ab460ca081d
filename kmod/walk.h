/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * A read-only walk over the caller's page tables that turns them into runs.
 */
#ifndef _CRYO_WALK_H
#define _CRYO_WALK_H

#include <linux/mm_types.h>

#include "runs.h"

/**
 * struct cryo_walk - one walk
 * @mm: the address space; mmap_lock is held for reading during the walk
 * @runs: receives the result
 * @want: CRYO_PAGE_* bits to report
 * @budget: how many tables may still be read
 */
struct cryo_walk {
	struct mm_struct *mm;
	struct cryo_runs *runs;
	u16 want;
	unsigned int budget;
};

/*
 * Walk until @end, until the budget is spent or the list is full. Returns the
 * address of the first page that is not in the list.
 */
unsigned long cryo_walk_range(struct cryo_walk *walk, unsigned long addr,
			      unsigned long end);

#endif /* _CRYO_WALK_H */
