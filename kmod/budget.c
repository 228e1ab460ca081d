// SPDX-License-Identifier: GPL-2.0-only
/*
 * Budgets. Pure logic: no kernel state, tested by budget_kunit.c.
 */
#include <linux/stddef.h>
#include <linux/time64.h>

#include "budget.h"

bool cryo_budget_take(struct cryo_budget *budgets, u32 nr, u32 rate, u64 who,
		      u64 now)
{
	struct cryo_budget *unused = NULL;
	u32 i;

	for (i = 0; i < nr; i++) {
		struct cryo_budget *budget = &budgets[i];

		if (!budget->used || now - budget->since >= NSEC_PER_SEC) {
			unused = unused ?: budget;
		} else if (budget->who == who) {
			if (budget->used >= rate)
				return false;
			budget->used++;
			return true;
		}
	}
	if (!unused)
		return false;
	*unused = (struct cryo_budget){ .who = who, .since = now, .used = 1 };
	return true;
}
