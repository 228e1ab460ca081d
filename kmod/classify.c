// SPDX-License-Identifier: GPL-2.0-only
/*
 * Page classes. Pure logic: no kernel state, tested by classify_kunit.c.
 *
 * If the page table is ambiguous, the answer is the class that makes the caller
 * save the page: a page too many costs space, a page too few loses the
 * program's data.
 */
#include "classify.h"

static enum cryo_class classify_anon(enum cryo_content content)
{
	switch (content) {
	case CRYO_HOLDS_NOTHING:
		return CRYO_UNTOUCHED;
	case CRYO_HOLDS_ZERO_PAGE:
		return CRYO_ZERO;
	default:
		return CRYO_ANON;
	}
}

static enum cryo_class classify_private(enum cryo_content content)
{
	switch (content) {
	case CRYO_HOLDS_NOTHING:
	case CRYO_HOLDS_FILE_PAGE:
		return CRYO_FILE;
	case CRYO_HOLDS_ZERO_PAGE:
		return CRYO_ZERO;
	default:
		return CRYO_COPIED;
	}
}

enum cryo_class cryo_classify(enum cryo_area area, enum cryo_content content)
{
	if (area == CRYO_AREA_SPECIAL)
		return CRYO_SPECIAL;
	if (content == CRYO_HOLDS_GUARD)
		return CRYO_GUARD;
	if (content == CRYO_HOLDS_POISON)
		return CRYO_POISON;
	if (area == CRYO_AREA_SHARED)
		return CRYO_SHARED;
	if (area == CRYO_AREA_PRIVATE)
		return classify_private(content);
	return classify_anon(content);
}

u16 cryo_entry_flags(const struct cryo_entry *entry)
{
	u16 flags = 0;

	switch (entry->content) {
	case CRYO_HOLDS_ZERO_PAGE:
	case CRYO_HOLDS_ANON_PAGE:
	case CRYO_HOLDS_FILE_PAGE:
	case CRYO_HOLDS_UNKNOWN:
		flags |= CRYO_PAGE_PRESENT;
		break;
	case CRYO_HOLDS_SWAP:
		flags |= CRYO_PAGE_SWAPPED;
		break;
	default:
		break;
	}
	if (entry->soft_dirty)
		flags |= CRYO_PAGE_SOFT_DIRTY;
	if (entry->huge)
		flags |= CRYO_PAGE_HUGE;
	return flags;
}
