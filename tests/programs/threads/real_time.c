// SPDX-License-Identifier: Apache-2.0
// Real-time policies and priorities, with SCHED_RESET_ON_FORK.
#include "probe.h"

#include <sched.h>

static volatile int set, check;

static void scheduled(const char *who, int policy, int priority)
{
    struct sched_param found;
    char what[64];
    snprintf(what, sizeof what, "real-time policy of %s", who);
    probe_equal(what, policy, sched_getscheduler(0));
    PROBE_TRY(sched_getparam(0, &found));
    snprintf(what, sizeof what, "real-time priority of %s", who);
    probe_equal(what, priority, found.sched_priority);
}

static void *worker(void *unused)
{
    PROBE_TRY(sched_setscheduler(0, SCHED_FIFO, &(struct sched_param){.sched_priority = 3}));
    set = 1;
    probe_await("check", &check);
    scheduled("the thread", SCHED_FIFO, 3);
    return unused;
}

int main(int argc, char **argv)
{
    probe_start(argc, argv);
    const struct sched_param two = {.sched_priority = 2};
    PROBE_TRY(sched_setscheduler(0, SCHED_RR | SCHED_RESET_ON_FORK, &two));
    do {
        pthread_t thread;
        set = check = 0;
        PROBE_ZERO(pthread_create(&thread, NULL, worker, NULL));
        probe_await("policy of the thread", &set);
        probe_ready();
        PROBE_SABOTAGE("priority", sched_setparam(0, &(struct sched_param){.sched_priority = 1}));
        scheduled("main", SCHED_RR | SCHED_RESET_ON_FORK, 2);
        check = 1;
        PROBE_ZERO(pthread_join(thread, NULL));
    } while (probe_more());
    return probe_pass();
}
