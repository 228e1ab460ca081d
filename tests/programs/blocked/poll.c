// SPDX-License-Identifier: Apache-2.0
// poll(2) and ppoll(2) without a timeout.
#include "probe.h"

#include <poll.h>

static int ends[2];

static long call_poll(void *unused)
{
    (void)unused;
    struct pollfd ready = {.fd = ends[0], .events = POLLIN};
    const int count = poll(&ready, 1, -1);
    return count == 1 ? ready.revents : count;
}

static long call_ppoll(void *unused)
{
    (void)unused;
    struct pollfd ready = {.fd = ends[0], .events = POLLIN};
    const int count = ppoll(&ready, 1, NULL, NULL);
    return count == 1 ? ready.revents : count;
}

int main(int argc, char **argv)
{
    probe_start(argc, argv);
    PROBE_TRY(pipe(ends));
    do {
        struct probe_sleeper sleepers[2];
        probe_sleep_in(&sleepers[0], SYS_poll, call_poll, NULL);
        probe_sleep_in(&sleepers[1], SYS_ppoll, call_ppoll, NULL);
        probe_ready();
        PROBE_SABOTAGE("poll", write(ends[1], "x", 1); probe_await("end", &sleepers[0].done));
        probe_still_asleep("poll", &sleepers[0]);
        probe_still_asleep("ppoll", &sleepers[1]);
        PROBE_TRY(write(ends[1], "x", 1));
        probe_woken("events of poll", &sleepers[0], POLLIN, 0);
        probe_woken("events of ppoll", &sleepers[1], POLLIN, 0);
        char byte;
        PROBE_TRY(read(ends[0], &byte, 1));
    } while (probe_more());
    return probe_pass();
}
