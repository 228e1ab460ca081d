// SPDX-License-Identifier: Apache-2.0
// read(2) of an empty pipe.
#include "probe.h"

static int ends[2];

static long call(void *buffer)
{
    return read(ends[0], buffer, 8);
}

int main(int argc, char **argv)
{
    probe_start(argc, argv);
    PROBE_TRY(pipe(ends));
    do {
        char buffer[8] = "";
        struct probe_sleeper sleeper;
        probe_sleep_in(&sleeper, SYS_read, call, buffer);
        probe_ready();
        PROBE_SABOTAGE("read", write(ends[1], "x", 1); probe_await("end", &sleeper.done));
        probe_still_asleep("read", &sleeper);
        PROBE_TRY(write(ends[1], "data", 4));
        probe_woken("read", &sleeper, 4, 0);
        probe_equal_text("what was read", "data", buffer);
    } while (probe_more());
    return probe_pass();
}
