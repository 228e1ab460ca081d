// SPDX-License-Identifier: Apache-2.0
// The size of a pipe set by F_SETPIPE_SZ, and a full one.
#include "probe.h"

enum { SMALL = 4096, LARGE = 256 * 1024 };

int main(int argc, char **argv)
{
    probe_start(argc, argv);
    int small[2], large[2];
    PROBE_TRY(pipe2(small, O_NONBLOCK));
    PROBE_TRY(pipe2(large, O_NONBLOCK));
    PROBE_TRY(fcntl(small[0], F_SETPIPE_SZ, SMALL));
    PROBE_TRY(fcntl(large[0], F_SETPIPE_SZ, LARGE));
    static char block[LARGE], got[LARGE];
    probe_fill(block, LARGE, 1);
    probe_equal("bytes that fit in the small pipe", SMALL, write(small[1], block, LARGE));
    probe_equal("bytes that fit in the large pipe", LARGE, write(large[1], block, LARGE));
    do {
        probe_ready();
        PROBE_SABOTAGE("size", fcntl(large[0], F_SETPIPE_SZ, 2 * LARGE));
        probe_equal("size of the small pipe", SMALL, fcntl(small[1], F_GETPIPE_SZ));
        probe_equal("size of the large pipe", LARGE, fcntl(large[1], F_GETPIPE_SZ));
        probe_equal("room in the full pipe", -1, write(large[1], "x", 1));
        probe_equal("contents of the full pipe", LARGE, read(large[0], got, LARGE));
        probe_equal_bytes("contents of the full pipe", block, got, LARGE);
        probe_equal("bytes put back", LARGE, write(large[1], block, LARGE));
    } while (probe_more());
    return probe_pass();
}
