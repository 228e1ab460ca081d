// SPDX-License-Identifier: Apache-2.0
// select(2) without a timeout.
#include "probe.h"

#include <sys/select.h>

static int ends[2];

static long call(void *unused)
{
    (void)unused;
    fd_set readable;
    FD_ZERO(&readable);
    FD_SET(ends[0], &readable);
    const int count = select(ends[0] + 1, &readable, NULL, NULL, NULL);
    return count == 1 && FD_ISSET(ends[0], &readable) ? 1 : count - 10;
}

int main(int argc, char **argv)
{
    probe_start(argc, argv);
    PROBE_TRY(pipe(ends));
    do {
        struct probe_sleeper sleeper;
        probe_sleep_in(&sleeper, SYS_pselect6, call, NULL);
        probe_ready();
        PROBE_SABOTAGE("select", write(ends[1], "x", 1); probe_await("end", &sleeper.done));
        probe_still_asleep("select", &sleeper);
        PROBE_TRY(write(ends[1], "x", 1));
        probe_woken("select", &sleeper, 1, 0);
        char byte;
        PROBE_TRY(read(ends[0], &byte, 1));
    } while (probe_more());
    return probe_pass();
}
