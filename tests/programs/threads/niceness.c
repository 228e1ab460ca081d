// SPDX-License-Identifier: Apache-2.0
// The nice value and scheduling policy of each thread, as far as a plain user may set them.
#include "probe.h"

#include <sched.h>
#include <sys/resource.h>

static volatile int set, check;

static void scheduled(const char *who, int policy, int nice_value)
{
    char what[64];
    snprintf(what, sizeof what, "scheduling policy of %s", who);
    probe_equal(what, policy, sched_getscheduler(0));
    snprintf(what, sizeof what, "nice value of %s", who);
    errno = 0;
    probe_equal(what, nice_value, getpriority(PRIO_PROCESS, 0));
}

static void *worker(void *unused)
{
    PROBE_TRY(sched_setscheduler(0, SCHED_IDLE, &(struct sched_param){0}));
    PROBE_TRY(setpriority(PRIO_PROCESS, 0, 15));
    set = 1;
    probe_await("check", &check);
    PROBE_SABOTAGE("nice value", setpriority(PRIO_PROCESS, 0, 19));
    scheduled("the thread", SCHED_IDLE, 15);
    return unused;
}

int main(int argc, char **argv)
{
    probe_start(argc, argv);
    PROBE_TRY(sched_setscheduler(0, SCHED_BATCH, &(struct sched_param){0}));
    PROBE_TRY(setpriority(PRIO_PROCESS, 0, 7));
    do {
        pthread_t thread;
        set = check = 0;
        PROBE_ZERO(pthread_create(&thread, NULL, worker, NULL));
        probe_await("priority of the thread", &set);
        probe_ready();
        PROBE_SABOTAGE("policy", sched_setscheduler(0, SCHED_OTHER, &(struct sched_param){0}));
        scheduled("main", SCHED_BATCH, 7);
        check = 1;
        PROBE_ZERO(pthread_join(thread, NULL));
    } while (probe_more());
    return probe_pass();
}
