// SPDX-License-Identifier: GPL-2.0-only
/*
 * KUnit tests of budgets.
 */
#include <kunit/test.h>
#include <linux/time64.h>

#include "budget.h"

#define BUDGETS 8
#define RATE 5

static u32 taken(struct cryo_budget *budgets, u64 who, u64 now, u32 tries)
{
	u32 n = 0;

	while (tries--)
		n += cryo_budget_take(budgets, BUDGETS, RATE, who, now);
	return n;
}

static void each_has_a_rate_of_its_own(struct kunit *test)
{
	struct cryo_budget budgets[BUDGETS] = {};
	u64 who;

	for (who = 0; who < BUDGETS; who++)
		KUNIT_EXPECT_EQ(test, taken(budgets, who, 1000, 100), RATE);
	for (who = 0; who < BUDGETS; who++)
		KUNIT_EXPECT_EQ(test, taken(budgets, who, 1001, 100), 0);
}

static void a_flood_costs_others_nothing(struct kunit *test)
{
	struct cryo_budget budgets[BUDGETS] = {};
	u64 second;

	for (second = 1; second < 10; second++) {
		u64 now = second * NSEC_PER_SEC;

		KUNIT_EXPECT_EQ(test, taken(budgets, 1, now, 1000), RATE);
		KUNIT_EXPECT_EQ(test, taken(budgets, 65, now, 3), 3);
		KUNIT_EXPECT_EQ(test, taken(budgets, 1, now + 1, 1000), 0);
		KUNIT_EXPECT_EQ(test, taken(budgets, 65, now + 2, 3), 2);
	}
}

static void a_second_begins_with_the_first_that_is_taken(struct kunit *test)
{
	struct cryo_budget budgets[BUDGETS] = {};
	const u64 first = 12345;

	KUNIT_EXPECT_EQ(test, taken(budgets, 1, first, 1), 1);
	KUNIT_EXPECT_EQ(test, taken(budgets, 1, first + NSEC_PER_SEC - 1, 9),
			RATE - 1);
	KUNIT_EXPECT_EQ(test, taken(budgets, 1, first + NSEC_PER_SEC, 9), RATE);
}

static void more_than_there_are_budgets_wait(struct kunit *test)
{
	struct cryo_budget budgets[BUDGETS] = {};
	u64 who;

	for (who = 1; who <= BUDGETS; who++)
		KUNIT_EXPECT_EQ(test, taken(budgets, who, who, 1), 1);
	KUNIT_EXPECT_EQ(test, taken(budgets, 99, 50, 1), 0);
	KUNIT_EXPECT_EQ(test, taken(budgets, 3, 50, 9), RATE - 1);
	/* Only the first user's second is over. */
	KUNIT_EXPECT_EQ(test, taken(budgets, 99, NSEC_PER_SEC + 1, 9), RATE);
	KUNIT_EXPECT_EQ(test, taken(budgets, 98, NSEC_PER_SEC + 1, 1), 0);
	KUNIT_EXPECT_EQ(test, taken(budgets, 2, NSEC_PER_SEC + 1, 9), RATE - 1);
}

static struct kunit_case cases[] = {
	KUNIT_CASE(each_has_a_rate_of_its_own),
	KUNIT_CASE(a_flood_costs_others_nothing),
	KUNIT_CASE(a_second_begins_with_the_first_that_is_taken),
	KUNIT_CASE(more_than_there_are_budgets_wait),
	{}
};

static struct kunit_suite suite = {
	.name = "cryo_budget",
	.test_cases = cases,
};

kunit_test_suite(suite);

MODULE_LICENSE("GPL");
