// SPDX-License-Identifier: Apache-2.0
// Time slices that threads have asked for (sched_setattr), beside a nice value.
#include "probe.h"

#include <sched.h>
#include <sys/resource.h>

enum { long_slice = 20000000, short_slice = 500000, own_nice = 5 };

struct attributes { // sched_attr
    uint32_t size, policy;
    uint64_t flags;
    int32_t nice;
    uint32_t priority;
    uint64_t runtime, deadline, period;
};

static void set_slice(uint64_t slice)
{
    const struct attributes wanted = {.size = sizeof wanted, .nice = own_nice, .runtime = slice};
    PROBE_TRY(syscall(SYS_sched_setattr, 0, &wanted, 0));
}

static void check_slice(const char *what, long long expected)
{
    struct attributes now;
    PROBE_TRY(syscall(SYS_sched_getattr, 0, &now, sizeof now, 0));
    probe_equal(what, expected, (long long)now.runtime);
    probe_equal("nice value", own_nice, now.nice);
}

static volatile int set, check;

static void *worker(void *unused)
{
    set_slice(short_slice);
    set = 1;
    probe_await("check", &check);
    check_slice("slice of the thread", short_slice);
    return unused;
}

int main(int argc, char **argv)
{
    probe_start(argc, argv);
    set_slice(long_slice);
    do {
        pthread_t thread;
        set = check = 0;
        PROBE_ZERO(pthread_create(&thread, NULL, worker, NULL));
        probe_await("slice of the thread", &set);
        probe_ready();
        PROBE_SABOTAGE("slice", set_slice(0));
        check_slice("slice of main", long_slice);
        check = 1;
        PROBE_ZERO(pthread_join(thread, NULL));
    } while (probe_more());
    return probe_pass();
}
