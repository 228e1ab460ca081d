/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * A list of runs: pages in a row that are alike, merged as they are added.
 *
 * The list lies in a buffer of fixed length. When it is full the caller takes
 * the finished runs out and goes on; the last one stays in the list, since the
 * next page may still belong to it.
 */
#ifndef _CRYO_RUNS_H
#define _CRYO_RUNS_H

#include <linux/types.h>
#include <linux/cryo.h>

struct cryo_runs {
	struct cryo_run *run;
	u32 nr;
	u32 max;
	unsigned int page_shift;
};

void cryo_runs_init(struct cryo_runs *runs, struct cryo_run *buf, u32 max,
		    unsigned int page_shift);

/* False: the list is full and was not changed. */
bool cryo_runs_add(struct cryo_runs *runs, u64 start, u64 npages,
		   u16 page_class, u16 flags);

/* How many runs at the front are finished: all but the last. */
u32 cryo_runs_finished(const struct cryo_runs *runs);

/* Drop the first @nr runs. */
void cryo_runs_drop(struct cryo_runs *runs, u32 nr);

#endif /* _CRYO_RUNS_H */
