// SPDX-License-Identifier: Apache-2.0
// A thousand open files, each at its own offset.
#include "probe.h"

#include <sys/resource.h>

enum { COUNT = 1000 };

int main(int argc, char **argv)
{
    probe_start(argc, argv);
    struct rlimit limit;
    PROBE_TRY(getrlimit(RLIMIT_NOFILE, &limit));
    limit.rlim_cur = limit.rlim_max;
    PROBE_TRY(setrlimit(RLIMIT_NOFILE, &limit));
    int fds[COUNT];
    PROBE_TRY(close(PROBE_TRY(open(probe_path("file"), O_CREAT | O_WRONLY, 0600))));
    for (int i = 0; i < COUNT; i++) {
        fds[i] = PROBE_TRY(open(probe_path("file"), O_RDONLY));
        PROBE_TRY(lseek(fds[i], i, SEEK_SET));
    }
    do {
        probe_ready();
        PROBE_SABOTAGE("descriptor", close(fds[777]));
        for (int i = 0; i < COUNT; i++) {
            char what[32];
            snprintf(what, sizeof what, "offset of descriptor %d", fds[i]);
            probe_equal(what, i, lseek(fds[i], 0, SEEK_CUR));
        }
    } while (probe_more());
    return probe_pass();
}
