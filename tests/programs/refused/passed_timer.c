// SPDX-License-Identifier: Apache-2.0
// A timer that only an unreceived message holds (SCM_RIGHTS).
#include "passing.h"

#include <sys/timerfd.h>

int main(int argc, char **argv)
{
    probe_start(argc, argv);
    do {
        int pair[2], got[most_files];
        char text[8];
        const int timer = (int)PROBE_TRY(timerfd_create(CLOCK_MONOTONIC, 0));
        PROBE_TRY(socketpair(AF_UNIX, SOCK_STREAM, 0, pair));
        send_files(pair[0], "t", 1, 1, &timer);
        close(timer);
        probe_ready();
        PROBE_SABOTAGE("timer", PROBE_TRY(read(pair[1], text, 1));
                       PROBE_TRY(write(pair[0], "n", 1)));
        probe_equal("descriptors with the timer", 1, receive_files(pair[1], text, 1, got));
        close(got[0]);
        close_files(2, pair);
    } while (probe_more());
    return probe_pass();
}
