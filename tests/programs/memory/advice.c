// SPDX-License-Identifier: Apache-2.0
// Advice given by madvise is still in force: the flags that /proc/self/smaps shows, and their
// effect on a fork.
#include "probe.h"

enum { PAGE = 4096 };

static const struct {
    int advice;
    const char *flag;
} advices[] = {{MADV_DONTFORK, " dc"},
               {MADV_WIPEONFORK, " wf"},
               {MADV_DONTDUMP, " dd"},
               {MADV_RANDOM, " rr"},
               {MADV_SEQUENTIAL, " sr"}};

enum { COUNT = sizeof advices / sizeof advices[0] };

static void has_flag(const unsigned char *at, const char *flag)
{
    FILE *maps = PROBE_MAP(fopen("/proc/self/smaps", "re"));
    char line[4096], what[32];
    snprintf(what, sizeof what, "advice flag%s", flag);
    unsigned long start = 0, low, high;
    while (fgets(line, sizeof line, maps) != NULL) {
        if (sscanf(line, "%lx-%lx ", &low, &high) == 2) {
            start = low;
        }
        if (start == (uintptr_t)at && strncmp(line, "VmFlags:", 8) == 0) {
            probe_true(what, strstr(line, flag) != NULL);
            fclose(maps);
            return;
        }
    }
    probe_fail("%s: expected a mapping at %p, found none", what, at);
}

int main(int argc, char **argv)
{
    probe_start(argc, argv);
    unsigned char *memory = PROBE_MAP(
        mmap(NULL, (2 * COUNT + 1) * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    unsigned char *at[COUNT];
    for (size_t i = 0; i < COUNT; i++) {
        at[i] = memory + (2 * i + 1) * PAGE;
        PROBE_TRY(mprotect(at[i], PAGE, PROT_READ | PROT_WRITE));
        PROBE_TRY(madvise(at[i], PAGE, advices[i].advice));
        at[i][0] = 'm';
    }
    do {
        probe_ready();
        PROBE_SABOTAGE("advice", madvise(at[1], PAGE, MADV_KEEPONFORK));
        PROBE_SABOTAGE("contents", at[0][0] = 0);
        for (size_t i = 0; i < COUNT; i++) {
            has_flag(at[i], advices[i].flag);
            probe_equal("contents", 'm', at[i][0]);
        }
        const pid_t child = PROBE_TRY(fork());
        if (child == 0) {
            unsigned char resident;
            const bool gone = mincore(at[0], PAGE, &resident) == -1 && errno == ENOMEM;
            _exit((gone ? 1 : 0) | (at[1][0] == 0 ? 2 : 0) | (at[2][0] == 'm' ? 4 : 0));
        }
        int status;
        PROBE_TRY(waitpid(child, &status, 0));
        probe_equal("advice at a fork", 7, WEXITSTATUS(status));
    } while (probe_more());
    return probe_pass();
}
