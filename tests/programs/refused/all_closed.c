// SPDX-License-Identifier: Apache-2.0
// A program that closes all its descriptors, including those that a library had opened.
#include "probe.h"

int main(int argc, char **argv)
{
    probe_start(argc, argv);
    PROBE_TRY(close_range(0, ~0u, 0));
    do {
        probe_ready();
        PROBE_SABOTAGE("descriptor", open("/dev/null", O_RDONLY));
        for (int fd = 0; fd < 64; fd++) {
            char what[32];
            snprintf(what, sizeof what, "descriptor %d", fd);
            probe_equal(what, -1, fcntl(fd, F_GETFD));
        }
    } while (probe_more());
    return probe_pass();
}
