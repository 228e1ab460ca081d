// SPDX-License-Identifier: GPL-2.0-only
/*
 * Run lists. Pure logic: no kernel state, tested by runs_kunit.c.
 */
#include <linux/string.h>

#include "runs.h"

void cryo_runs_init(struct cryo_runs *runs, struct cryo_run *buf, u32 max,
		    unsigned int page_shift)
{
	runs->run = buf;
	runs->nr = 0;
	runs->max = max;
	runs->page_shift = page_shift;
}

bool cryo_runs_add(struct cryo_runs *runs, u64 start, u64 npages,
		   u16 page_class, u16 flags)
{
	if (runs->nr) {
		struct cryo_run *last = &runs->run[runs->nr - 1];
		u64 end = last->start + (last->npages << runs->page_shift);

		if (end == start && last->page_class == page_class &&
		    last->flags == flags) {
			last->npages += npages;
			return true;
		}
	}
	if (runs->nr == runs->max)
		return false;
	runs->run[runs->nr++] = (struct cryo_run){
		.start = start,
		.npages = npages,
		.page_class = page_class,
		.flags = flags,
	};
	return true;
}

u32 cryo_runs_finished(const struct cryo_runs *runs)
{
	return runs->nr ? runs->nr - 1 : 0;
}

void cryo_runs_drop(struct cryo_runs *runs, u32 nr)
{
	runs->nr -= nr;
	memmove(runs->run, runs->run + nr, runs->nr * sizeof(*runs->run));
}
