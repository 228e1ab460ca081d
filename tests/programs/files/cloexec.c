// SPDX-License-Identifier: Apache-2.0
// Close-on-exec belongs to each descriptor, and an exec honours it.
#include "probe.h"

int main(int argc, char **argv)
{
    probe_start(argc, argv);
    int kept = PROBE_TRY(open("/dev/null", O_RDONLY));
    int closed = PROBE_TRY(open("/dev/null", O_RDONLY | O_CLOEXEC));
    int closed_dup = PROBE_TRY(fcntl(kept, F_DUPFD_CLOEXEC, 100));
    char script[128];
    snprintf(script, sizeof script,
             "test -e /proc/self/fd/%d && ! test -e /proc/self/fd/%d && ! test -e /proc/self/fd/%d",
             kept, closed, closed_dup);
    do {
        probe_ready();
        PROBE_SABOTAGE("close-on-exec", fcntl(closed, F_SETFD, 0));
        probe_equal("close-on-exec of a kept one", 0, fcntl(kept, F_GETFD));
        probe_equal("close-on-exec of a closed one", FD_CLOEXEC, fcntl(closed, F_GETFD));
        probe_equal("close-on-exec of a dup", FD_CLOEXEC, fcntl(closed_dup, F_GETFD));
        probe_equal("descriptors after an exec", 0, system(script));
    } while (probe_more());
    return probe_pass();
}
