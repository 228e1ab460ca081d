// SPDX-License-Identifier: Apache-2.0
// A descriptor number far above the others.
#include "probe.h"

#include <sys/resource.h>

enum { HIGH = 1999 };

int main(int argc, char **argv)
{
    probe_start(argc, argv);
    struct rlimit limit;
    PROBE_TRY(getrlimit(RLIMIT_NOFILE, &limit));
    limit.rlim_cur = limit.rlim_max;
    PROBE_TRY(setrlimit(RLIMIT_NOFILE, &limit));
    int low = PROBE_TRY(open(probe_path("file"), O_CREAT | O_RDWR, 0600));
    PROBE_TRY(dup2(low, HIGH));
    PROBE_TRY(close(low));
    do {
        PROBE_TRY(lseek(HIGH, 5, SEEK_SET));
        probe_ready();
        PROBE_SABOTAGE("high descriptor", close(HIGH));
        probe_equal("offset of the high descriptor", 5, lseek(HIGH, 0, SEEK_CUR));
        probe_equal("lowest free descriptor", low, dup(HIGH));
        PROBE_TRY(close(low));
    } while (probe_more());
    return probe_pass();
}
