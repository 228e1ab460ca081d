/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What a caller may ask for: the checks of every descriptor that comes from
 * user space, before anything is done with it.
 */
#ifndef _CRYO_BOUNDS_H
#define _CRYO_BOUNDS_H

#include <linux/types.h>
#include <linux/cryo.h>

/* Whole pages, not empty, below @limit; EINVAL otherwise. */
int cryo_check_range(u64 start, u64 end, u64 limit, u64 page_size);

/* The parts of a command's structure that do not depend on the caller. */
int cryo_check_scan(const struct cryo_scan *scan);
int cryo_check_event(const struct cryo_event *event);
int cryo_check_threads(const struct cryo_threads *threads);
int cryo_check_files(const struct cryo_files *files);
int cryo_check_nextpid(const struct cryo_nextpid *nextpid, u32 pid_limit);
int cryo_check_dump(const struct cryo_dump *dump);
int cryo_check_restore(const struct cryo_restore *restore, u64 limit,
		       u64 page_size);

/*
 * One region: well formed, below @limit, behind @floor (where the one before it
 * ended) and outside of what is kept.
 */
int cryo_check_region(const struct cryo_region *region,
		      const struct cryo_restore *restore, u64 floor, u64 limit,
		      u64 page_size);

/* Whether [@start, @start + @count * @item) lies in what is kept. */
bool cryo_is_kept(const struct cryo_restore *restore, u64 start, u64 count,
		  u64 item);

#endif /* _CRYO_BOUNDS_H */
