// SPDX-License-Identifier: Apache-2.0
// write(2) to a full pipe.
#include "probe.h"

enum { SIZE = 4096 };

static int ends[2];

static long call(void *buffer)
{
    return write(ends[1], buffer, SIZE);
}

int main(int argc, char **argv)
{
    probe_start(argc, argv);
    static char block[SIZE], got[SIZE];
    PROBE_TRY(pipe(ends));
    PROBE_TRY(fcntl(ends[0], F_SETPIPE_SZ, SIZE));
    do {
        struct probe_sleeper sleeper;
        probe_fill(block, SIZE, probe_cycle());
        PROBE_TRY(write(ends[1], got, SIZE));
        probe_sleep_in(&sleeper, SYS_write, call, block);
        probe_ready();
        PROBE_SABOTAGE("write", PROBE_TRY(read(ends[0], got, SIZE));
                       probe_await("end", &sleeper.done));
        probe_still_asleep("write", &sleeper);
        probe_equal("what was in the pipe", SIZE, read(ends[0], got, SIZE));
        probe_woken("write", &sleeper, SIZE, 0);
        probe_equal("what was written", SIZE, read(ends[0], got, SIZE));
        probe_equal_bytes("contents", block, got, SIZE);
    } while (probe_more());
    return probe_pass();
}
