// SPDX-License-Identifier: Apache-2.0
// Access mode and status flags of open files, those that open sets and those that fcntl sets.
#include "probe.h"

int main(int argc, char **argv)
{
    probe_start(argc, argv);
    const int flags[] = {O_RDONLY,
                         O_WRONLY,
                         O_RDWR,
                         O_WRONLY | O_APPEND,
                         O_RDWR | O_NONBLOCK,
                         O_WRONLY | O_DSYNC,
                         O_RDWR | O_SYNC,
                         O_RDONLY | O_NOATIME,
                         O_RDWR};
    enum { COUNT = sizeof flags / sizeof flags[0] };
    int fds[COUNT], expected[COUNT];
    PROBE_TRY(close(PROBE_TRY(open(probe_path("file"), O_CREAT | O_WRONLY, 0600))));
    for (int i = 0; i < COUNT; i++) {
        fds[i] = PROBE_TRY(open(probe_path("file"), flags[i]));
    }
    PROBE_TRY(fcntl(fds[COUNT - 1], F_SETFL, O_APPEND | O_NONBLOCK));
    for (int i = 0; i < COUNT; i++) {
        expected[i] = PROBE_TRY(fcntl(fds[i], F_GETFL));
    }
    do {
        probe_ready();
        PROBE_SABOTAGE("flags", fcntl(fds[COUNT - 1], F_SETFL, 0));
        for (int i = 0; i < COUNT; i++) {
            char what[32];
            snprintf(what, sizeof what, "flags of file %d", i);
            probe_equal(what, expected[i], fcntl(fds[i], F_GETFL));
        }
    } while (probe_more());
    return probe_pass();
}
