// SPDX-License-Identifier: Apache-2.0
// Resource limits.
#include "probe.h"

#include <sys/resource.h>

int main(int argc, char **argv)
{
    probe_start(argc, argv);
    const struct {
        int resource;
        const char *name;
        rlim_t soft;
    } limits[] = {{RLIMIT_NOFILE, "limit of open files", 123},
                  {RLIMIT_CORE, "limit of core files", 0},
                  {RLIMIT_STACK, "limit of the stack", 3 << 20},
                  {RLIMIT_FSIZE, "limit of file sizes", 1 << 30},
                  {RLIMIT_CPU, "limit of CPU time", 100000}};
    enum { COUNT = sizeof limits / sizeof limits[0] };
    struct rlimit expected[COUNT], found;
    for (int i = 0; i < COUNT; i++) {
        PROBE_TRY(getrlimit(limits[i].resource, &expected[i]));
        expected[i].rlim_cur = limits[i].soft;
        PROBE_TRY(setrlimit(limits[i].resource, &expected[i]));
    }
    do {
        probe_ready();
        found = (struct rlimit){.rlim_cur = 50, .rlim_max = expected[0].rlim_max};
        PROBE_SABOTAGE("open files", setrlimit(RLIMIT_NOFILE, &found));
        for (int i = 0; i < COUNT; i++) {
            PROBE_TRY(getrlimit(limits[i].resource, &found));
            probe_equal(limits[i].name, (long long)expected[i].rlim_cur, (long long)found.rlim_cur);
            probe_equal(limits[i].name, (long long)expected[i].rlim_max, (long long)found.rlim_max);
        }
        probe_equal("lowest descriptor above the limit", -1, dup2(1, 123));
    } while (probe_more());
    return probe_pass();
}
