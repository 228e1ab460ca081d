// SPDX-License-Identifier: GPL-2.0-only
/*
 * KUnit tests of the page classes: every kind of mapping with everything a
 * page table entry may hold.
 */
#include <kunit/test.h>

#include "classify.h"

static const char * const area_names[] = {
	[CRYO_AREA_ANON] = "anonymous",
	[CRYO_AREA_PRIVATE] = "private",
	[CRYO_AREA_SHARED] = "shared",
	[CRYO_AREA_SPECIAL] = "special",
};

static const enum cryo_class expected[][CRYO_HOLDS_UNKNOWN + 1] = {
	[CRYO_AREA_ANON] = {
		[CRYO_HOLDS_NOTHING] = CRYO_UNTOUCHED,
		[CRYO_HOLDS_ZERO_PAGE] = CRYO_ZERO,
		[CRYO_HOLDS_ANON_PAGE] = CRYO_ANON,
		[CRYO_HOLDS_FILE_PAGE] = CRYO_ANON,
		[CRYO_HOLDS_SWAP] = CRYO_ANON,
		[CRYO_HOLDS_GUARD] = CRYO_GUARD,
		[CRYO_HOLDS_POISON] = CRYO_POISON,
		[CRYO_HOLDS_UNKNOWN] = CRYO_ANON,
	},
	[CRYO_AREA_PRIVATE] = {
		[CRYO_HOLDS_NOTHING] = CRYO_FILE,
		[CRYO_HOLDS_ZERO_PAGE] = CRYO_ZERO,
		[CRYO_HOLDS_ANON_PAGE] = CRYO_COPIED,
		[CRYO_HOLDS_FILE_PAGE] = CRYO_FILE,
		[CRYO_HOLDS_SWAP] = CRYO_COPIED,
		[CRYO_HOLDS_GUARD] = CRYO_GUARD,
		[CRYO_HOLDS_POISON] = CRYO_POISON,
		[CRYO_HOLDS_UNKNOWN] = CRYO_COPIED,
	},
	[CRYO_AREA_SHARED] = {
		[CRYO_HOLDS_NOTHING] = CRYO_SHARED,
		[CRYO_HOLDS_ZERO_PAGE] = CRYO_SHARED,
		[CRYO_HOLDS_ANON_PAGE] = CRYO_SHARED,
		[CRYO_HOLDS_FILE_PAGE] = CRYO_SHARED,
		[CRYO_HOLDS_SWAP] = CRYO_SHARED,
		[CRYO_HOLDS_GUARD] = CRYO_GUARD,
		[CRYO_HOLDS_POISON] = CRYO_POISON,
		[CRYO_HOLDS_UNKNOWN] = CRYO_SHARED,
	},
	[CRYO_AREA_SPECIAL] = {
		[CRYO_HOLDS_NOTHING] = CRYO_SPECIAL,
		[CRYO_HOLDS_ZERO_PAGE] = CRYO_SPECIAL,
		[CRYO_HOLDS_ANON_PAGE] = CRYO_SPECIAL,
		[CRYO_HOLDS_FILE_PAGE] = CRYO_SPECIAL,
		[CRYO_HOLDS_SWAP] = CRYO_SPECIAL,
		[CRYO_HOLDS_GUARD] = CRYO_SPECIAL,
		[CRYO_HOLDS_POISON] = CRYO_SPECIAL,
		[CRYO_HOLDS_UNKNOWN] = CRYO_SPECIAL,
	},
};

static void every_area_with_every_content(struct kunit *test)
{
	unsigned int area, content;

	for (area = 0; area < ARRAY_SIZE(expected); area++) {
		for (content = 0; content <= CRYO_HOLDS_UNKNOWN; content++)
			KUNIT_EXPECT_EQ_MSG(test,
					    cryo_classify(area, content),
					    expected[area][content],
					    "%s mapping, content %u",
					    area_names[area], content);
	}
}

static u16 flags_of(enum cryo_content content, bool soft_dirty, bool huge)
{
	const struct cryo_entry entry = {
		.content = content,
		.soft_dirty = soft_dirty,
		.huge = huge,
	};

	return cryo_entry_flags(&entry);
}

static void a_page_in_the_table_is_present(struct kunit *test)
{
	KUNIT_EXPECT_EQ(test, flags_of(CRYO_HOLDS_ANON_PAGE, false, false),
			CRYO_PAGE_PRESENT);
	KUNIT_EXPECT_EQ(test, flags_of(CRYO_HOLDS_FILE_PAGE, false, false),
			CRYO_PAGE_PRESENT);
	KUNIT_EXPECT_EQ(test, flags_of(CRYO_HOLDS_ZERO_PAGE, false, false),
			CRYO_PAGE_PRESENT);
	KUNIT_EXPECT_EQ(test, flags_of(CRYO_HOLDS_NOTHING, false, false), 0);
	KUNIT_EXPECT_EQ(test, flags_of(CRYO_HOLDS_GUARD, false, false), 0);
	KUNIT_EXPECT_EQ(test, flags_of(CRYO_HOLDS_POISON, false, false), 0);
}

static void a_page_in_swap_is_not_present(struct kunit *test)
{
	KUNIT_EXPECT_EQ(test, flags_of(CRYO_HOLDS_SWAP, false, false),
			CRYO_PAGE_SWAPPED);
}

static void soft_dirty_and_huge_are_kept(struct kunit *test)
{
	KUNIT_EXPECT_EQ(test, flags_of(CRYO_HOLDS_ANON_PAGE, true, true),
			CRYO_PAGE_PRESENT | CRYO_PAGE_SOFT_DIRTY |
			CRYO_PAGE_HUGE);
	KUNIT_EXPECT_EQ(test, flags_of(CRYO_HOLDS_NOTHING, true, false),
			CRYO_PAGE_SOFT_DIRTY);
}

static void no_flag_is_unknown_to_user_space(struct kunit *test)
{
	unsigned int content;

	for (content = 0; content <= CRYO_HOLDS_UNKNOWN; content++)
		KUNIT_EXPECT_EQ(test,
				flags_of(content, true, true) & ~CRYO_PAGE_FLAGS,
				0);
}

static struct kunit_case cases[] = {
	KUNIT_CASE(every_area_with_every_content),
	KUNIT_CASE(a_page_in_the_table_is_present),
	KUNIT_CASE(a_page_in_swap_is_not_present),
	KUNIT_CASE(soft_dirty_and_huge_are_kept),
	KUNIT_CASE(no_flag_is_unknown_to_user_space),
	{}
};

static struct kunit_suite suite = {
	.name = "cryo_classify",
	.test_cases = cases,
};

kunit_test_suite(suite);

MODULE_LICENSE("GPL");
