// SPDX-License-Identifier: Apache-2.0
// A program that closes all descriptors by the C library's functions, and then uses every number.
#include "probe.h"

#include <sys/resource.h>

int main(int argc, char **argv)
{
    probe_start(argc, argv);
    struct rlimit limit;
    PROBE_TRY(getrlimit(RLIMIT_NOFILE, &limit));
    const int most = limit.rlim_cur < 1100 ? (int)limit.rlim_cur : 1100;
    do {
        closefrom(3);
        PROBE_TRY(close_range(3, ~0u, 0));
        for (int fd = 3; fd < most; fd++) {
            (void)close(fd);
        }
        const int file = PROBE_TRY(open(probe_path("file"), O_CREAT | O_RDWR, 0600));
        for (int fd = file + 1; fd < most - 1; fd++) {
            probe_equal("number wanted", fd, dup2(file, fd));
            if (fd != 777) {
                PROBE_TRY(close(fd));
            }
        }
        probe_ready();
        PROBE_SABOTAGE("777", close(777));
        for (int fd = file + 1; fd < most - 1; fd++) {
            char what[40];
            snprintf(what, sizeof what, "descriptor %d open", fd);
            // The checkpointer's own descriptor must not be visible to the program.
            const bool open = fcntl(fd, F_GETFD) >= 0 && close(fd) == 0;
            probe_equal(what, fd == 777, open);
        }
    } while (probe_more());
    return probe_pass();
}
