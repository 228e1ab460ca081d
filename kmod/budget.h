/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Rate limits: how many units each of many users may take per second.
 */
#ifndef _CRYO_BUDGET_H
#define _CRYO_BUDGET_H

#include <linux/types.h>

/**
 * struct cryo_budget - what one user has taken
 * @who: the user
 * @since: when the user's current second began, in nanoseconds
 * @used: units taken since then; 0: the budget is free
 */
struct cryo_budget {
	u64 who;
	u64 since;
	u32 used;
};

/*
 * Takes one of the @rate units that @who may take per second; the second begins
 * with its first unit. False: none is left, or all @nr budgets belong to other
 * users for this second. Callers serialize their calls and make sure that @now
 * never goes back.
 */
bool cryo_budget_take(struct cryo_budget *budgets, u32 nr, u32 rate, u64 who,
		      u64 now);

#endif /* _CRYO_BUDGET_H */
