// SPDX-License-Identifier: Apache-2.0
// An io_uring instance.
#include "probe.h"

#include <linux/io_uring.h>

int main(int argc, char **argv)
{
    probe_start(argc, argv);
    struct io_uring_params parameters = {0};
    int ring = (int)syscall(SYS_io_uring_setup, 4, &parameters);
    if (ring < 0) {
        probe_lacks("io_uring");
    }
    do {
        probe_ready();
        PROBE_SABOTAGE("ring", dup2(PROBE_TRY(open("/dev/null", O_RDWR)), ring));
        probe_equal("entering the ring", 0, syscall(SYS_io_uring_enter, ring, 0, 0, 0, NULL, 0));
    } while (probe_more());
    return probe_pass();
}
