/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * How a checkpoint treats a page, decided from the kind of its mapping and the
 * contents of its page table entry.
 */
#ifndef _CRYO_CLASSIFY_H
#define _CRYO_CLASSIFY_H

#include <linux/types.h>
#include <linux/cryo.h>

/* The kind of a mapping. */
enum cryo_area {
	CRYO_AREA_ANON,    /* private, backed by nothing */
	CRYO_AREA_PRIVATE, /* private, backed by a file */
	CRYO_AREA_SHARED,
	CRYO_AREA_SPECIAL, /* the kernel's own, or a device's */
};

/* What a page table entry holds. */
enum cryo_content {
	CRYO_HOLDS_NOTHING,
	CRYO_HOLDS_ZERO_PAGE,
	CRYO_HOLDS_ANON_PAGE,
	CRYO_HOLDS_FILE_PAGE,
	CRYO_HOLDS_SWAP,
	CRYO_HOLDS_GUARD,
	CRYO_HOLDS_POISON,
	CRYO_HOLDS_UNKNOWN, /* saved like the program's own page, to be safe */
};

struct cryo_entry {
	enum cryo_content content;
	bool soft_dirty;
	bool huge;
};

enum cryo_class cryo_classify(enum cryo_area area, enum cryo_content content);

/* All CRYO_PAGE_* bits that hold for the entry. */
u16 cryo_entry_flags(const struct cryo_entry *entry);

#endif /* _CRYO_CLASSIFY_H */
