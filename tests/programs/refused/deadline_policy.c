// SPDX-License-Identifier: Apache-2.0
// A thread that is scheduled by deadlines (SCHED_DEADLINE).
#include "probe.h"

struct attributes { // the kernel's struct sched_attr, which older headers lack
    uint32_t size, policy;
    uint64_t flags;
    int32_t nice;
    uint32_t priority;
    uint64_t runtime, deadline, period;
};

enum { BY_DEADLINE = 6 };

static uint32_t policy(void)
{
    struct attributes found = {.size = sizeof found};
    PROBE_TRY(syscall(SYS_sched_getattr, 0, &found, sizeof found, 0));
    return found.policy;
}

int main(int argc, char **argv)
{
    probe_start(argc, argv);
    const struct attributes wanted = {.size = sizeof wanted,
                                      .policy = BY_DEADLINE,
                                      .runtime = 20000000,
                                      .deadline = 100000000,
                                      .period = 100000000};
    PROBE_TRY(syscall(SYS_sched_setattr, 0, &wanted, 0));
    do {
        probe_ready();
        const struct attributes usual = {.size = sizeof usual};
        PROBE_SABOTAGE("policy", PROBE_TRY(syscall(SYS_sched_setattr, 0, &usual, 0)));
        probe_equal("policy", BY_DEADLINE, policy());
    } while (probe_more());
    return probe_pass();
}
