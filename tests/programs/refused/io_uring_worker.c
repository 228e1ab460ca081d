// SPDX-License-Identifier: Apache-2.0
// An io_uring instance with a worker, which the kernel lists as one of the program's threads.
#include "ring.h"

int main(int argc, char **argv)
{
    probe_start(argc, argv);
    struct ring ring;
    if (!ring_open(&ring))
        probe_lacks("io_uring");
    ring_read_by_worker(&ring);
    do {
        probe_ready();
        PROBE_SABOTAGE("ring", dup2(PROBE_TRY(open("/dev/null", O_RDWR)), ring.fd));
        probe_equal("entering the ring", 0, syscall(SYS_io_uring_enter, ring.fd, 0, 0, 0, NULL, 0));
    } while (probe_more());
    return probe_pass();
}
