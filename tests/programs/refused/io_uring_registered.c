// SPDX-License-Identifier: Apache-2.0
// An io_uring instance registered with its thread, with neither descriptor nor memory.
#include "ring.h"

int main(int argc, char **argv)
{
    probe_start(argc, argv);
    struct ring ring;
    if (!ring_open(&ring))
        probe_lacks("io_uring");
    struct io_uring_rsrc_update at = {.offset = 3, .data = (unsigned)ring.fd};
    if (syscall(SYS_io_uring_register, ring.fd, IORING_REGISTER_RING_FDS, &at, 1) != 1)
        probe_lacks("registered rings");
    ring_close(&ring);
    do {
        probe_ready();
        PROBE_SABOTAGE("ring", at.offset++);
        probe_equal(
            "entering the ring", 0,
            syscall(SYS_io_uring_enter, at.offset, 0, 0, IORING_ENTER_REGISTERED_RING, NULL, 0));
    } while (probe_more());
    return probe_pass();
}
