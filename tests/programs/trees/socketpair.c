// SPDX-License-Identifier: Apache-2.0
// Socketpairs between two processes: stream, datagram and seqpacket, bytes queued both ways, and
// an end that was shut down for writing.
#include "probe.h"

#include <sys/socket.h>

enum { COUNT = 3 };

static const int types[COUNT] = {SOCK_STREAM, SOCK_DGRAM, SOCK_SEQPACKET};
static int pairs[COUNT][2];

static void receive(const char *what, int fd, const char *expected)
{
    char got[32] = "";
    probe_equal(what, (long long)strlen(expected), recv(fd, got, sizeof got, MSG_DONTWAIT));
    probe_equal_text(what, expected, got);
}

static void child(void)
{
    for (int i = 0; i < COUNT; i++) {
        close(pairs[i][0]);
        PROBE_TRY(send(pairs[i][1], "to parent", 9, 0));
    }
    PROBE_TRY(shutdown(pairs[0][1], SHUT_WR));
    probe_await_check();
    for (int i = 0; i < COUNT; i++) {
        PROBE_SABOTAGE("queued", recv(pairs[i][1], (char[9]){0}, 9, 0));
        receive("queued for the child", pairs[i][1], "to child");
    }
}

int main(int argc, char **argv)
{
    probe_start(argc, argv);
    do {
        for (int i = 0; i < COUNT; i++) {
            PROBE_TRY(socketpair(AF_UNIX, types[i], 0, pairs[i]));
            PROBE_TRY(send(pairs[i][0], "to child", 8, 0));
        }
        const pid_t member = probe_fork(child);
        for (int i = 0; i < COUNT; i++) {
            close(pairs[i][1]);
        }
        probe_ready();
        for (int i = 0; i < COUNT; i++) {
            if (!probe_sabotaged("queued")) {
                receive("queued for the parent", pairs[i][0], "to parent");
            }
        }
        probe_reap("child that had something queued", member);
        probe_equal("after the shutdown", 0, recv(pairs[0][0], (char[1]){0}, 1, 0));
        for (int i = 0; i < COUNT; i++) {
            close(pairs[i][0]);
        }
    } while (probe_more());
    return probe_pass();
}
