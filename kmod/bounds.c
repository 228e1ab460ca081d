// SPDX-License-Identifier: GPL-2.0-only
/*
 * Checks of descriptors. Pure logic: no kernel state, tested by
 * bounds_kunit.c.
 */
#include <linux/err.h>
#include <linux/errno.h>
#include <linux/limits.h>
#include <linux/mman.h>

#include "bounds.h"

int cryo_check_range(u64 start, u64 end, u64 limit, u64 page_size)
{
	if ((start | end) & (page_size - 1))
		return -EINVAL;
	if (start >= end || end > limit)
		return -EINVAL;
	return 0;
}

int cryo_check_scan(const struct cryo_scan *scan)
{
	if (scan->flags || scan->reserved || scan->want & ~CRYO_PAGE_FLAGS)
		return -EOPNOTSUPP;
	if (!scan->max_runs)
		return -EINVAL;
	return 0;
}

int cryo_check_event(const struct cryo_event *event)
{
	bool failed = event->phase == CRYO_PHASE_FAILED;

	if (event->flags || event->reserved || event->reserved2)
		return -EOPNOTSUPP;
	if (event->operation != CRYO_OP_CHECKPOINT &&
	    event->operation != CRYO_OP_RESTART)
		return -EINVAL;
	if (event->phase < CRYO_PHASE_STARTED || event->phase > CRYO_PHASE_FAILED)
		return -EINVAL;
	if (failed != !!event->error || event->error > MAX_ERRNO)
		return -EINVAL;
	if (event->bytes_total && event->bytes_done > event->bytes_total)
		return -EINVAL;
	if (event->target > S32_MAX)
		return -EINVAL;
	return 0;
}

int cryo_check_threads(const struct cryo_threads *threads)
{
	return threads->flags ? -EOPNOTSUPP : 0;
}

int cryo_check_files(const struct cryo_files *files)
{
	return files->flags ? -EOPNOTSUPP : 0;
}

int cryo_check_nextpid(const struct cryo_nextpid *nextpid, u32 pid_limit)
{
	if (nextpid->flags || nextpid->previous)
		return -EOPNOTSUPP;
	/* 1 is the namespace's init, which lives as long as the namespace. */
	if (nextpid->pid < 2 || nextpid->pid >= pid_limit)
		return -EINVAL;
	return 0;
}

int cryo_check_dump(const struct cryo_dump *dump)
{
	if (dump->flags || dump->reserved)
		return -EOPNOTSUPP;
	/* File positions are signed, and their sum must not overflow. */
	if (dump->offset > S64_MAX || dump->done > S64_MAX - dump->offset)
		return -EINVAL;
	return 0;
}

bool cryo_is_kept(const struct cryo_restore *restore, u64 start, u64 count,
		  u64 item)
{
	/* All terms lie below the end of the address space, so nothing overflows. */
	return start >= restore->keep_start && start <= restore->keep_end &&
	       count <= (restore->keep_end - start) / item;
}

int cryo_check_restore(const struct cryo_restore *restore, u64 limit,
		       u64 page_size)
{
	int rc;

	if (restore->flags || restore->reserved)
		return -EOPNOTSUPP;
	rc = cryo_check_range(restore->keep_start, restore->keep_end, limit,
			      page_size);
	if (rc)
		return rc;
	if (restore->offset > S64_MAX ||
	    restore->done > S64_MAX - restore->offset)
		return -EINVAL;
	if (restore->mapped > restore->nr_regions)
		return -EINVAL;
	if (restore->nr_regions &&
	    !cryo_is_kept(restore, restore->regions, restore->nr_regions,
			  sizeof(struct cryo_region)))
		return -EINVAL;
	if (restore->nr_ranges &&
	    !cryo_is_kept(restore, restore->ranges, restore->nr_ranges,
			  sizeof(struct cryo_range)))
		return -EINVAL;
	return 0;
}

int cryo_check_region(const struct cryo_region *region,
		      const struct cryo_restore *restore, u64 floor, u64 limit,
		      u64 page_size)
{
	int rc;

	if (region->reserved || region->flags & ~CRYO_REGION_FLAGS)
		return -EOPNOTSUPP;
	rc = cryo_check_range(region->start, region->end, limit, page_size);
	if (rc)
		return rc;
	if (region->start < floor)
		return -EINVAL;
	if (region->start < restore->keep_end &&
	    region->end > restore->keep_start)
		return -EINVAL;
	if (region->prot & ~(PROT_READ | PROT_WRITE | PROT_EXEC))
		return -EINVAL;
	if (region->fd < -1 || (region->fd == -1 && region->offset))
		return -EINVAL;
	if (region->offset & (page_size - 1) || region->offset > S64_MAX)
		return -EINVAL;
	return 0;
}
