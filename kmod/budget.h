/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * How much of something each of many may have in a second.
 */
#ifndef _CRYO_BUDGET_H
#define _CRYO_BUDGET_H

#include <linux/types.h>

/**
 * struct cryo_budget - what one of them has had
 * @who: whose it is
 * @since: when that one's second has begun, in nanoseconds
 * @used: how much since then; 0: nobody's
 */
struct cryo_budget {
	u64 who;
	u64 since;
	u32 used;
};

/*
 * Takes one of the @rate that @who may have in a second, which begins with the
 * first that is taken. False: there is none left, or all of the @nr budgets
 * belong to others for this second. Callers see to it that they come one by
 * one, and that @now never goes back.
 */
bool cryo_budget_take(struct cryo_budget *budgets, u32 nr, u32 rate, u64 who,
		      u64 now);

#endif /* _CRYO_BUDGET_H */
