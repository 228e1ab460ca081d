// SPDX-License-Identifier: GPL-2.0-only
/*
 * KUnit tests of the checks of descriptors.
 */
#include <kunit/test.h>
#include <linux/bits.h>
#include <linux/errno.h>
#include <linux/limits.h>

#include "bounds.h"

#define PAGE 4096ULL
#define LIMIT BIT_ULL(47)

static void ranges(struct kunit *test)
{
	static const struct {
		u64 start, end;
		int rc;
	} cases[] = {
		{ 0, PAGE, 0 },
		{ 0, LIMIT, 0 },
		{ LIMIT - PAGE, LIMIT, 0 },
		{ PAGE, PAGE, -EINVAL },
		{ 0, 0, -EINVAL },
		{ 2 * PAGE, PAGE, -EINVAL },
		{ 1, PAGE, -EINVAL },
		{ 0, PAGE - 1, -EINVAL },
		{ PAGE, 2 * PAGE + 8, -EINVAL },
		{ 0, LIMIT + PAGE, -EINVAL },
		{ LIMIT, LIMIT + PAGE, -EINVAL },
		{ 0, -PAGE, -EINVAL },
		{ -PAGE, 0, -EINVAL },
		{ -PAGE, -1ULL, -EINVAL },
		{ 0xffff800000000000ULL, 0xffff800000001000ULL, -EINVAL },
	};
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(cases); i++)
		KUNIT_EXPECT_EQ_MSG(test,
				    cryo_check_range(cases[i].start,
						     cases[i].end, LIMIT, PAGE),
				    cases[i].rc, "case %u", i);
}

static const struct cryo_scan good_scan = {
	.size = sizeof(struct cryo_scan),
	.end = PAGE,
	.max_runs = 1,
	.want = CRYO_PAGE_FLAGS,
};

static void scans(struct kunit *test)
{
	struct cryo_scan scan = good_scan;

	KUNIT_EXPECT_EQ(test, cryo_check_scan(&scan), 0);
	scan.flags = 1;
	KUNIT_EXPECT_EQ(test, cryo_check_scan(&scan), -EOPNOTSUPP);
	scan = good_scan;
	scan.reserved = 1;
	KUNIT_EXPECT_EQ(test, cryo_check_scan(&scan), -EOPNOTSUPP);
	scan = good_scan;
	scan.want = CRYO_PAGE_FLAGS + 1;
	KUNIT_EXPECT_EQ(test, cryo_check_scan(&scan), -EOPNOTSUPP);
	scan = good_scan;
	scan.max_runs = 0;
	KUNIT_EXPECT_EQ(test, cryo_check_scan(&scan), -EINVAL);
	/* Asking for more than the module returns is allowed. */
	scan.max_runs = U32_MAX;
	KUNIT_EXPECT_EQ(test, cryo_check_scan(&scan), 0);
}

static const struct cryo_event good_event = {
	.size = sizeof(struct cryo_event),
	.operation = CRYO_OP_CHECKPOINT,
	.phase = CRYO_PHASE_PROGRESS,
	.bytes_done = 1,
	.bytes_total = 2,
};

static void events(struct kunit *test)
{
	struct cryo_event event = good_event;

	KUNIT_EXPECT_EQ(test, cryo_check_event(&event), 0);
	event.flags = 1;
	KUNIT_EXPECT_EQ(test, cryo_check_event(&event), -EOPNOTSUPP);
	event = good_event;
	event.reserved = 1;
	KUNIT_EXPECT_EQ(test, cryo_check_event(&event), -EOPNOTSUPP);

	event = good_event;
	event.operation = 0;
	KUNIT_EXPECT_EQ(test, cryo_check_event(&event), -EINVAL);
	event.operation = CRYO_OP_RESTART + 1;
	KUNIT_EXPECT_EQ(test, cryo_check_event(&event), -EINVAL);

	event = good_event;
	event.phase = 0;
	KUNIT_EXPECT_EQ(test, cryo_check_event(&event), -EINVAL);
	event.phase = CRYO_PHASE_FAILED + 1;
	KUNIT_EXPECT_EQ(test, cryo_check_event(&event), -EINVAL);
}

static void only_a_failure_has_an_error(struct kunit *test)
{
	struct cryo_event event = good_event;

	event.error = ENOSPC;
	KUNIT_EXPECT_EQ(test, cryo_check_event(&event), -EINVAL);
	event.phase = CRYO_PHASE_FAILED;
	KUNIT_EXPECT_EQ(test, cryo_check_event(&event), 0);
	event.error = 0;
	KUNIT_EXPECT_EQ(test, cryo_check_event(&event), -EINVAL);
	event.error = 4095;
	KUNIT_EXPECT_EQ(test, cryo_check_event(&event), 0);
	event.error = 4096;
	KUNIT_EXPECT_EQ(test, cryo_check_event(&event), -EINVAL);
}

static void progress_stays_below_the_total(struct kunit *test)
{
	struct cryo_event event = good_event;

	event.bytes_done = event.bytes_total;
	KUNIT_EXPECT_EQ(test, cryo_check_event(&event), 0);
	event.bytes_done++;
	KUNIT_EXPECT_EQ(test, cryo_check_event(&event), -EINVAL);
	event.bytes_total = 0; /* unknown */
	KUNIT_EXPECT_EQ(test, cryo_check_event(&event), 0);
}

static void threads_and_files(struct kunit *test)
{
	struct cryo_threads threads = { .size = sizeof(threads) };
	struct cryo_files files = { .size = sizeof(files) };

	KUNIT_EXPECT_EQ(test, cryo_check_threads(&threads), 0);
	KUNIT_EXPECT_EQ(test, cryo_check_files(&files), 0);
	threads.flags = 1;
	files.flags = BIT(31);
	KUNIT_EXPECT_EQ(test, cryo_check_threads(&threads), -EOPNOTSUPP);
	KUNIT_EXPECT_EQ(test, cryo_check_files(&files), -EOPNOTSUPP);
}

static void next_pids(struct kunit *test)
{
	struct cryo_nextpid next = { .size = sizeof(next), .pid = 2 };
	const u32 limit = 4 * 1024 * 1024;

	KUNIT_EXPECT_EQ(test, cryo_check_nextpid(&next, limit), 0);
	next.pid = limit - 1;
	KUNIT_EXPECT_EQ(test, cryo_check_nextpid(&next, limit), 0);
	next.pid = limit;
	KUNIT_EXPECT_EQ(test, cryo_check_nextpid(&next, limit), -EINVAL);
	next.pid = U32_MAX;
	KUNIT_EXPECT_EQ(test, cryo_check_nextpid(&next, limit), -EINVAL);
	next.pid = 1;
	KUNIT_EXPECT_EQ(test, cryo_check_nextpid(&next, limit), -EINVAL);
	next.pid = 0;
	KUNIT_EXPECT_EQ(test, cryo_check_nextpid(&next, limit), -EINVAL);
	next.pid = 2;
	next.previous = 1;
	KUNIT_EXPECT_EQ(test, cryo_check_nextpid(&next, limit), -EOPNOTSUPP);
	next.previous = 0;
	next.flags = 1;
	KUNIT_EXPECT_EQ(test, cryo_check_nextpid(&next, limit), -EOPNOTSUPP);
}

static void dumps(struct kunit *test)
{
	struct cryo_dump dump = { .offset = S64_MAX };

	KUNIT_EXPECT_EQ(test, cryo_check_dump(&dump), 0);
	dump.done = 1;
	KUNIT_EXPECT_EQ(test, cryo_check_dump(&dump), -EINVAL);
	dump.offset = S64_MAX - 1;
	KUNIT_EXPECT_EQ(test, cryo_check_dump(&dump), 0);
	dump.done = U64_MAX;
	KUNIT_EXPECT_EQ(test, cryo_check_dump(&dump), -EINVAL);
	dump.done = 0;
	dump.offset = BIT_ULL(63);
	KUNIT_EXPECT_EQ(test, cryo_check_dump(&dump), -EINVAL);
	dump.offset = 0;
	dump.reserved = BIT_ULL(40);
	KUNIT_EXPECT_EQ(test, cryo_check_dump(&dump), -EOPNOTSUPP);
	dump.reserved = 0;
	dump.flags = 1;
	KUNIT_EXPECT_EQ(test, cryo_check_dump(&dump), -EOPNOTSUPP);
}

static const struct cryo_restore good_restore = {
	.keep_start = 16 * PAGE,
	.keep_end = 20 * PAGE,
	.regions = 16 * PAGE,
	.ranges = 17 * PAGE,
	.nr_regions = 2,
	.nr_ranges = 3,
};

static void what_is_kept(struct kunit *test)
{
	const struct cryo_restore *keep = &good_restore;

	KUNIT_EXPECT_TRUE(test, cryo_is_kept(keep, 16 * PAGE, 4, PAGE));
	KUNIT_EXPECT_TRUE(test, cryo_is_kept(keep, 20 * PAGE, 0, PAGE));
	KUNIT_EXPECT_FALSE(test, cryo_is_kept(keep, 16 * PAGE, 5, PAGE));
	KUNIT_EXPECT_FALSE(test, cryo_is_kept(keep, 16 * PAGE - 1, 1, 1));
	KUNIT_EXPECT_FALSE(test, cryo_is_kept(keep, 20 * PAGE, 1, 1));
	KUNIT_EXPECT_FALSE(test, cryo_is_kept(keep, 20 * PAGE + 1, 0, 1));
	/* Sizes that wrap around are not inside. */
	KUNIT_EXPECT_FALSE(test, cryo_is_kept(keep, 17 * PAGE, U64_MAX, 48));
	KUNIT_EXPECT_FALSE(test, cryo_is_kept(keep, U64_MAX, 1, 1));
}

static void restores(struct kunit *test)
{
	struct cryo_restore restore = good_restore;

#define CHECK(expected)                                                        \
	KUNIT_EXPECT_EQ(test, cryo_check_restore(&restore, LIMIT, PAGE),       \
			expected)
	CHECK(0);
	restore.mapped = 2;
	CHECK(0);
	restore.mapped = 3;
	CHECK(-EINVAL);
	restore = good_restore;
	restore.nr_regions = U32_MAX;
	CHECK(-EINVAL);
	restore = good_restore;
	restore.nr_ranges = 3 * PAGE / sizeof(struct cryo_range) + 1;
	CHECK(-EINVAL);
	restore = good_restore;
	restore.ranges = 0;
	CHECK(-EINVAL);
	restore.nr_ranges = 0;
	CHECK(0);
	restore = good_restore;
	restore.keep_end = restore.keep_start;
	CHECK(-EINVAL);
	restore = good_restore;
	restore.keep_end = LIMIT + PAGE;
	CHECK(-EINVAL);
	restore = good_restore;
	restore.keep_start++;
	CHECK(-EINVAL);
	restore = good_restore;
	restore.offset = S64_MAX;
	restore.done = 1;
	CHECK(-EINVAL);
	restore = good_restore;
	restore.reserved = 1;
	CHECK(-EOPNOTSUPP);
	restore = good_restore;
	restore.flags = BIT(31);
	CHECK(-EOPNOTSUPP);
#undef CHECK
}

static void regions(struct kunit *test)
{
	static const struct cryo_region good = {
		.start = 4 * PAGE,
		.end = 8 * PAGE,
		.fd = -1,
		.prot = 7,
		.flags = CRYO_REGION_FLAGS,
	};
	struct cryo_region region = good;

#define CHECK(floor, expected)                                                 \
	KUNIT_EXPECT_EQ(test, cryo_check_region(&region, &good_restore, floor, \
						LIMIT, PAGE), expected)
	CHECK(0, 0);
	CHECK(4 * PAGE, 0);
	CHECK(5 * PAGE, -EINVAL);
	/* Up to the kept memory, and behind it, but not into it. */
	region.end = 16 * PAGE;
	CHECK(0, 0);
	region.end = 17 * PAGE;
	CHECK(0, -EINVAL);
	region.start = 18 * PAGE;
	region.end = 19 * PAGE;
	CHECK(0, -EINVAL);
	region.start = 20 * PAGE;
	region.end = LIMIT;
	CHECK(0, 0);
	region = good;
	region.start = PAGE;
	region.end = 30 * PAGE;
	CHECK(0, -EINVAL);
	region = good;
	region.end = LIMIT + PAGE;
	CHECK(0, -EINVAL);
	region = good;
	region.end = region.start;
	CHECK(0, -EINVAL);
	region = good;
	region.prot = 8;
	CHECK(0, -EINVAL);
	region = good;
	region.fd = -2;
	CHECK(0, -EINVAL);
	region = good;
	region.offset = PAGE; /* an offset without a file */
	CHECK(0, -EINVAL);
	region.fd = 3;
	CHECK(0, 0);
	region.offset = PAGE / 2;
	CHECK(0, -EINVAL);
	region.offset = BIT_ULL(63);
	CHECK(0, -EINVAL);
	region = good;
	region.flags = CRYO_REGION_FLAGS + 1;
	CHECK(0, -EOPNOTSUPP);
	region = good;
	region.reserved = 1;
	CHECK(0, -EOPNOTSUPP);
#undef CHECK
}

static struct kunit_case cases[] = {
	KUNIT_CASE(ranges),
	KUNIT_CASE(scans),
	KUNIT_CASE(events),
	KUNIT_CASE(only_a_failure_has_an_error),
	KUNIT_CASE(progress_stays_below_the_total),
	KUNIT_CASE(threads_and_files),
	KUNIT_CASE(next_pids),
	KUNIT_CASE(dumps),
	KUNIT_CASE(what_is_kept),
	KUNIT_CASE(restores),
	KUNIT_CASE(regions),
	{}
};

static struct kunit_suite suite = {
	.name = "cryo_bounds",
	.test_cases = cases,
};

kunit_test_suite(suite);

MODULE_LICENSE("GPL");
