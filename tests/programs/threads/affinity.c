// SPDX-License-Identifier: Apache-2.0
// The CPUs that each thread may run on.
#include "probe.h"

#include <sched.h>

static volatile int set, check;

static void pin(int cpu)
{
    cpu_set_t cpus;
    CPU_ZERO(&cpus);
    CPU_SET(cpu, &cpus);
    PROBE_TRY(sched_setaffinity(0, sizeof cpus, &cpus));
}

static void pinned(const char *what, int cpu)
{
    cpu_set_t cpus;
    PROBE_TRY(sched_getaffinity(0, sizeof cpus, &cpus));
    probe_equal(what, 1, CPU_COUNT(&cpus));
    probe_true(what, CPU_ISSET(cpu, &cpus));
    probe_equal("cpu it runs on", cpu, sched_getcpu());
}

static void *worker(void *argument)
{
    const int cpu = (int)(intptr_t)argument;
    pin(cpu);
    set = 1;
    probe_await("check", &check);
    pinned("affinity of a thread", cpu);
    return NULL;
}

int main(int argc, char **argv)
{
    probe_start(argc, argv);
    cpu_set_t all;
    PROBE_TRY(sched_getaffinity(0, sizeof all, &all));
    int cpus[2] = {-1, -1}, found = 0;
    for (int cpu = 0; cpu < CPU_SETSIZE && found < 2; cpu++) {
        if (CPU_ISSET(cpu, &all)) {
            cpus[found++] = cpu;
        }
    }
    if (found < 2) {
        probe_lacks("two CPUs");
    }
    pin(cpus[1]);
    do {
        pthread_t thread;
        set = check = 0;
        PROBE_ZERO(pthread_create(&thread, NULL, worker, (void *)(intptr_t)cpus[0]));
        probe_await("affinity of the thread", &set);
        probe_ready();
        PROBE_SABOTAGE("affinity", sched_setaffinity(0, sizeof all, &all));
        pinned("affinity of main", cpus[1]);
        check = 1;
        PROBE_ZERO(pthread_join(thread, NULL));
    } while (probe_more());
    return probe_pass();
}
