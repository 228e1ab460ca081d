// SPDX-License-Identifier: GPL-2.0-only
/*
 * KUnit tests of finding descriptors that share an open file.
 */
#include <kunit/test.h>

#include "sharing.h"

static void the_lowest_stands_for_all(struct kunit *test)
{
	struct cryo_fd fds[] = {
		{ .key = 70, .file.fd = 0 },
		{ .key = 10, .file.fd = 1 },
		{ .key = 70, .file.fd = 2 },
		{ .key = 50, .file.fd = 5 },
		{ .key = 10, .file.fd = 7 },
		{ .key = 70, .file.fd = 100 },
	};
	static const u32 expected[][2] = {
		{ 0, 0 }, { 1, 1 }, { 2, 0 }, { 5, 5 }, { 7, 1 }, { 100, 0 },
	};
	unsigned int i;

	cryo_find_shared(fds, ARRAY_SIZE(fds));
	for (i = 0; i < ARRAY_SIZE(fds); i++) {
		KUNIT_EXPECT_EQ(test, fds[i].file.fd, expected[i][0]);
		KUNIT_EXPECT_EQ(test, fds[i].file.same_as, expected[i][1]);
	}
}

static void keys_differ_in_any_bit(struct kunit *test)
{
	struct cryo_fd fds[] = {
		{ .key = 1, .file.fd = 0 },
		{ .key = 1UL << 63, .file.fd = 1 },
		{ .key = (1UL << 63) + 1, .file.fd = 2 },
		{ .key = 1UL << 32, .file.fd = 3 },
	};
	unsigned int i;

	cryo_find_shared(fds, ARRAY_SIZE(fds));
	for (i = 0; i < ARRAY_SIZE(fds); i++)
		KUNIT_EXPECT_EQ(test, fds[i].file.same_as, i);
}

static void everything_else_is_kept(struct kunit *test)
{
	struct cryo_fd fds[] = {
		{ .key = 2, .file = { .fd = 0, .pos = 11, .ino = 12 } },
		{ .key = 1, .file = { .fd = 1, .pos = 21, .ino = 22 } },
	};

	cryo_find_shared(fds, ARRAY_SIZE(fds));
	KUNIT_EXPECT_EQ(test, fds[0].file.pos, 11);
	KUNIT_EXPECT_EQ(test, fds[0].file.ino, 12);
	KUNIT_EXPECT_EQ(test, fds[1].file.pos, 21);
	KUNIT_EXPECT_EQ(test, fds[1].file.ino, 22);
}

static void no_descriptor_is_fine(struct kunit *test)
{
	struct cryo_fd one = { .key = 3, .file.fd = 4 };

	cryo_find_shared(&one, 0);
	KUNIT_EXPECT_EQ(test, one.file.same_as, 0);
	cryo_find_shared(&one, 1);
	KUNIT_EXPECT_EQ(test, one.file.same_as, 4);
}

static struct kunit_case cases[] = {
	KUNIT_CASE(the_lowest_stands_for_all),
	KUNIT_CASE(keys_differ_in_any_bit),
	KUNIT_CASE(everything_else_is_kept),
	KUNIT_CASE(no_descriptor_is_fine),
	{}
};

static struct kunit_suite suite = {
	.name = "cryo_sharing",
	.test_cases = cases,
};

kunit_test_suite(suite);

MODULE_LICENSE("GPL");
