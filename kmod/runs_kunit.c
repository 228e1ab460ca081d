// SPDX-License-Identifier: GPL-2.0-only
/*
 * KUnit tests of the run lists.
 */
#include <kunit/test.h>

#include "runs.h"

#define SHIFT 12
#define PAGES(n) ((u64)(n) << SHIFT)

static void alike_neighbours_merge(struct kunit *test)
{
	struct cryo_run buf[2];
	struct cryo_runs runs;

	cryo_runs_init(&runs, buf, ARRAY_SIZE(buf), SHIFT);
	KUNIT_EXPECT_TRUE(test, cryo_runs_add(&runs, PAGES(4), 1, CRYO_ANON, 0));
	KUNIT_EXPECT_TRUE(test, cryo_runs_add(&runs, PAGES(5), 3, CRYO_ANON, 0));
	KUNIT_EXPECT_EQ(test, runs.nr, 1);
	KUNIT_EXPECT_EQ(test, buf[0].start, PAGES(4));
	KUNIT_EXPECT_EQ(test, buf[0].npages, 4);
	KUNIT_EXPECT_EQ(test, buf[0].page_class, CRYO_ANON);
	KUNIT_EXPECT_EQ(test, buf[0].reserved, 0);
}

static void different_neighbours_stay_apart(struct kunit *test)
{
	struct cryo_run buf[4];
	struct cryo_runs runs;

	cryo_runs_init(&runs, buf, ARRAY_SIZE(buf), SHIFT);
	cryo_runs_add(&runs, PAGES(1), 1, CRYO_ANON, 0);
	cryo_runs_add(&runs, PAGES(2), 1, CRYO_ZERO, 0);
	cryo_runs_add(&runs, PAGES(3), 1, CRYO_ZERO, CRYO_PAGE_SOFT_DIRTY);
	KUNIT_EXPECT_EQ(test, runs.nr, 3);
	KUNIT_EXPECT_EQ(test, buf[1].flags, 0);
	KUNIT_EXPECT_EQ(test, buf[2].flags, CRYO_PAGE_SOFT_DIRTY);
}

static void alike_pages_across_a_gap_stay_apart(struct kunit *test)
{
	struct cryo_run buf[2];
	struct cryo_runs runs;

	cryo_runs_init(&runs, buf, ARRAY_SIZE(buf), SHIFT);
	cryo_runs_add(&runs, PAGES(1), 1, CRYO_ANON, 0);
	cryo_runs_add(&runs, PAGES(3), 1, CRYO_ANON, 0);
	KUNIT_EXPECT_EQ(test, runs.nr, 2);
}

static void a_full_list_refuses_and_keeps(struct kunit *test)
{
	struct cryo_run buf[3];
	struct cryo_runs runs;

	memset(buf, 0xa5, sizeof(buf));
	cryo_runs_init(&runs, buf, 2, SHIFT);
	KUNIT_EXPECT_TRUE(test, cryo_runs_add(&runs, PAGES(1), 1, CRYO_ANON, 0));
	KUNIT_EXPECT_TRUE(test, cryo_runs_add(&runs, PAGES(2), 1, CRYO_ZERO, 0));
	KUNIT_EXPECT_FALSE(test, cryo_runs_add(&runs, PAGES(3), 1, CRYO_FILE, 0));
	KUNIT_EXPECT_EQ(test, runs.nr, 2);
	KUNIT_EXPECT_EQ(test, buf[2].start, 0xa5a5a5a5a5a5a5a5ULL);
	/* A full list still extends its last run. */
	KUNIT_EXPECT_TRUE(test, cryo_runs_add(&runs, PAGES(3), 7, CRYO_ZERO, 0));
	KUNIT_EXPECT_EQ(test, buf[1].npages, 8);
}

static void the_last_run_is_not_finished(struct kunit *test)
{
	struct cryo_run buf[4];
	struct cryo_runs runs;

	cryo_runs_init(&runs, buf, ARRAY_SIZE(buf), SHIFT);
	KUNIT_EXPECT_EQ(test, cryo_runs_finished(&runs), 0);
	cryo_runs_add(&runs, PAGES(1), 1, CRYO_ANON, 0);
	KUNIT_EXPECT_EQ(test, cryo_runs_finished(&runs), 0);
	cryo_runs_add(&runs, PAGES(2), 1, CRYO_ZERO, 0);
	cryo_runs_add(&runs, PAGES(3), 1, CRYO_FILE, 0);
	KUNIT_EXPECT_EQ(test, cryo_runs_finished(&runs), 2);

	cryo_runs_drop(&runs, 2);
	KUNIT_EXPECT_EQ(test, runs.nr, 1);
	KUNIT_EXPECT_EQ(test, buf[0].start, PAGES(3));
	KUNIT_EXPECT_TRUE(test, cryo_runs_add(&runs, PAGES(4), 1, CRYO_FILE, 0));
	KUNIT_EXPECT_EQ(test, buf[0].npages, 2);
	cryo_runs_drop(&runs, 1);
	KUNIT_EXPECT_EQ(test, runs.nr, 0);
}

static void counts_beyond_32_bits_hold(struct kunit *test)
{
	struct cryo_run buf[1];
	struct cryo_runs runs;
	u64 half = 1ULL << 34;

	cryo_runs_init(&runs, buf, 1, SHIFT);
	KUNIT_EXPECT_TRUE(test, cryo_runs_add(&runs, 0, half, CRYO_UNMAPPED, 0));
	KUNIT_EXPECT_TRUE(test, cryo_runs_add(&runs, PAGES(half), half,
					      CRYO_UNMAPPED, 0));
	KUNIT_EXPECT_EQ(test, buf[0].npages, 2 * half);
}

static struct kunit_case cases[] = {
	KUNIT_CASE(alike_neighbours_merge),
	KUNIT_CASE(different_neighbours_stay_apart),
	KUNIT_CASE(alike_pages_across_a_gap_stay_apart),
	KUNIT_CASE(a_full_list_refuses_and_keeps),
	KUNIT_CASE(the_last_run_is_not_finished),
	KUNIT_CASE(counts_beyond_32_bits_hold),
	{}
};

static struct kunit_suite suite = {
	.name = "cryo_runs",
	.test_cases = cases,
};

kunit_test_suite(suite);

MODULE_LICENSE("GPL");
