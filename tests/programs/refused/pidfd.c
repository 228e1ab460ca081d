// SPDX-License-Identifier: Apache-2.0
// A pidfd of another process (the parent).
#include "probe.h"

int main(int argc, char **argv)
{
    probe_start(argc, argv);
    int fd = (int)syscall(SYS_pidfd_open, getppid(), 0);
    if (fd < 0) {
        probe_lacks("pidfd_open");
    }
    do {
        probe_ready();
        PROBE_SABOTAGE("signal", close(fd));
        probe_equal("signal 0 by pidfd", 0, syscall(SYS_pidfd_send_signal, fd, 0, NULL, 0));
    } while (probe_more());
    return probe_pass();
}
