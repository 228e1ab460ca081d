// SPDX-License-Identifier: Apache-2.0
// A pipe inside the process: its contents, order, and both ends.
#include "probe.h"

enum { SIZE = 50000 };

int main(int argc, char **argv)
{
    probe_start(argc, argv);
    static unsigned char sent[SIZE], got[SIZE];
    int ends[2];
    PROBE_TRY(pipe2(ends, O_CLOEXEC | O_NONBLOCK));
    do {
        probe_fill(sent, SIZE, probe_cycle());
        probe_equal("bytes sent", SIZE, write(ends[1], sent, SIZE));
        probe_ready();
        PROBE_SABOTAGE("contents", read(ends[0], got, 1));
        probe_equal("bytes of the pipe's contents", SIZE, read(ends[0], got, SIZE));
        probe_equal_bytes("contents of the pipe", sent, got, SIZE);
        probe_equal("more in the pipe", -1, read(ends[0], got, 1));
        probe_equal("errno of an empty pipe", EAGAIN, errno);
        probe_equal("a byte through the pipe", 1, write(ends[1], "x", 1));
        probe_equal("that byte", 1, read(ends[0], got, 1));
    } while (probe_more());
    return probe_pass();
}
