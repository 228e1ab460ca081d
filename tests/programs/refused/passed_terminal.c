// SPDX-License-Identifier: Apache-2.0
// A terminal that only an unreceived message holds (SCM_RIGHTS).
#include "passing.h"

int main(int argc, char **argv)
{
    probe_start(argc, argv);
    do {
        int pair[2], got[most_files];
        char text[8];
        const int terminal = (int)PROBE_TRY(posix_openpt(O_RDWR | O_NOCTTY));
        PROBE_TRY(socketpair(AF_UNIX, SOCK_STREAM, 0, pair));
        send_files(pair[0], "t", 1, 1, &terminal);
        close(terminal);
        probe_ready();
        PROBE_SABOTAGE("terminal", PROBE_TRY(read(pair[1], text, 1));
                       PROBE_TRY(write(pair[0], "n", 1)));
        probe_equal("descriptors with the terminal", 1, receive_files(pair[1], text, 1, got));
        probe_true("a terminal", ptsname(got[0]) != NULL);
        close(got[0]);
        close_files(2, pair);
    } while (probe_more());
    return probe_pass();
}
