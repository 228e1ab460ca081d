/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Checks of what a caller asks for: every descriptor that comes from user space
 * is checked before it is used.
 */
#ifndef _CRYO_BOUNDS_H
#define _CRYO_BOUNDS_H

#include <linux/types.h>
#include <linux/cryo.h>

/* The range is whole pages, not empty, below @limit; EINVAL otherwise. */
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
 * One region: well formed, below @limit, at or behind @floor (the end of the
 * region before it) and outside of the kept memory.
 */
int cryo_check_region(const struct cryo_region *region,
		      const struct cryo_restore *restore, u64 floor, u64 limit,
		      u64 page_size);

/* Whether [@start, @start + @count * @item) lies in the kept memory. */
bool cryo_is_kept(const struct cryo_restore *restore, u64 start, u64 count,
		  u64 item);

#endif /* _CRYO_BOUNDS_H */
