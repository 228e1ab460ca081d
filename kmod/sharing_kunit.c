// SPDX-License-Identifier: GPL-2.0-only
/*
 * KUnit tests of finding descriptors that share an open file.
 */
#include <kunit/test.h>
#include <linux/jiffies.h>
#include <linux/kthread.h>
#include <linux/mm.h>

#include "sharing.h"

static void find_shared(struct kunit *test, struct cryo_fd *fds, u32 nr)
{
	u32 *room = kunit_kcalloc(test, nr + 1, 2 * sizeof(*room), GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, room);
	cryo_find_shared(fds, nr, room, room + nr);
}

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

	find_shared(test, fds, ARRAY_SIZE(fds));
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

	find_shared(test, fds, ARRAY_SIZE(fds));
	for (i = 0; i < ARRAY_SIZE(fds); i++)
		KUNIT_EXPECT_EQ(test, fds[i].file.same_as, i);
}

static void everything_else_is_kept(struct kunit *test)
{
	struct cryo_fd fds[] = {
		{ .key = 2, .file = { .fd = 0, .pos = 11, .ino = 12 } },
		{ .key = 1, .file = { .fd = 1, .pos = 21, .ino = 22 } },
	};

	find_shared(test, fds, ARRAY_SIZE(fds));
	KUNIT_EXPECT_EQ(test, fds[0].file.pos, 11);
	KUNIT_EXPECT_EQ(test, fds[0].file.ino, 12);
	KUNIT_EXPECT_EQ(test, fds[1].file.pos, 21);
	KUNIT_EXPECT_EQ(test, fds[1].file.ino, 22);
}

static void no_descriptor_is_fine(struct kunit *test)
{
	struct cryo_fd one = { .key = 3, .file.fd = 4 };

	find_shared(test, &one, 0);
	KUNIT_EXPECT_EQ(test, one.file.same_as, 0);
	find_shared(test, &one, 1);
	KUNIT_EXPECT_EQ(test, one.file.same_as, 4);
}

/* Pseudo-random numbers, the same in each run. */
static u64 next_number(u64 *state)
{
	*state = *state * 6364136223846793005ULL + 1442695040888963407ULL;
	return *state >> 33 ^ *state;
}

static void agrees_with_comparing_each_with_each(struct kunit *test)
{
	const u32 nr = 2000;
	struct cryo_fd *fds = kunit_kcalloc(test, nr, sizeof(*fds), GFP_KERNEL);
	u64 state = 5;
	u32 i, j;

	KUNIT_ASSERT_NOT_NULL(test, fds);
	for (i = 0; i < nr; i++) {
		fds[i].file.fd = 3 * i;
		fds[i].key = next_number(&state) % 700 << i % 3 * 20;
	}
	find_shared(test, fds, nr);
	for (i = 0; i < nr; i++) {
		for (j = 0; fds[j].key != fds[i].key; j++)
			;
		KUNIT_ASSERT_EQ(test, fds[i].file.fd, 3 * i);
		KUNIT_ASSERT_EQ(test, fds[i].file.same_as, 3 * j);
	}
}

struct other {
	bool at_work;
	bool ran;
};

static int run_along(void *data)
{
	struct other *other = data;

	while (!kthread_should_stop()) {
		if (READ_ONCE(other->at_work))
			WRITE_ONCE(other->ran, true);
		cond_resched();
	}
	return 0;
}

/*
 * User Mode Linux has one processor and never preempts a task in the kernel, so
 * another task runs meanwhile only if this one yields.
 */
static void others_run_while_many_are_looked_at(struct kunit *test)
{
	const unsigned long end = jiffies + 10 * HZ;
	struct other other = {};
	struct task_struct *task;
	struct cryo_fd *fds;
	u64 state = 6;
	u32 *room;
	u32 i;

	if (IS_ENABLED(CONFIG_PREEMPTION) || num_online_cpus() > 1)
		kunit_skip(test, "a task in the kernel can be interrupted here");
	fds = kvcalloc(CRYO_FILES_MAX, sizeof(*fds), GFP_KERNEL);
	room = kvcalloc(CRYO_FILES_MAX, 2 * sizeof(*room), GFP_KERNEL);
	task = kthread_run(run_along, &other, "cryo-along");
	if (!fds || !room || IS_ERR(task)) {
		KUNIT_FAIL(test, "no memory");
		goto free;
	}
	for (i = 0; i < CRYO_FILES_MAX; i++) {
		fds[i].file.fd = i;
		fds[i].key = next_number(&state);
	}
	while (!other.ran && time_before(jiffies, end)) {
		WRITE_ONCE(other.at_work, true);
		cryo_find_shared(fds, CRYO_FILES_MAX, room,
				 room + CRYO_FILES_MAX);
		WRITE_ONCE(other.at_work, false);
	}
	KUNIT_EXPECT_TRUE(test, other.ran);
free:
	if (!IS_ERR(task))
		kthread_stop(task);
	kvfree(room);
	kvfree(fds);
}

static struct kunit_case cases[] = {
	KUNIT_CASE(the_lowest_stands_for_all),
	KUNIT_CASE(keys_differ_in_any_bit),
	KUNIT_CASE(everything_else_is_kept),
	KUNIT_CASE(no_descriptor_is_fine),
	KUNIT_CASE(agrees_with_comparing_each_with_each),
	KUNIT_CASE(others_run_while_many_are_looked_at),
	{}
};

static struct kunit_suite suite = {
	.name = "cryo_sharing",
	.test_cases = cases,
};

kunit_test_suite(suite);

MODULE_LICENSE("GPL");
