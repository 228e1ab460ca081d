// SPDX-License-Identifier: Apache-2.0
// A child that has changed its root directory.
#include "probe.h"

#include <sys/socket.h>

static void ask(int socket)
{
    unsigned char byte = 7;
    probe_equal("bytes to the child", 1, write(socket, &byte, 1));
    probe_equal("bytes from the child", 1, read(socket, &byte, 1));
    probe_equal("answer of the child", 8, byte);
}

int main(int argc, char **argv)
{
    probe_start(argc, argv);
    int ends[2];
    PROBE_TRY(socketpair(AF_UNIX, SOCK_STREAM, 0, ends));
    signal(SIGPIPE, SIG_IGN);
    const pid_t pid = PROBE_TRY(fork());
    if (pid == 0) {
        PROBE_TRY(close(ends[0]));
        PROBE_TRY(chroot(probe_path(".")));
        PROBE_TRY(chdir("/"));
        for (unsigned char byte; read(ends[1], &byte, 1) == 1;) {
            byte++;
            if (write(ends[1], &byte, 1) != 1) {
                break;
            }
        }
        _exit(0);
    }
    PROBE_TRY(close(ends[1]));
    ask(ends[0]); // its answer means that it has its new root
    do {
        probe_ready();
        PROBE_SABOTAGE("child", (kill(pid, SIGKILL), waitpid(pid, NULL, 0)));
        ask(ends[0]);
    } while (probe_more());
    PROBE_TRY(close(ends[0]));
    PROBE_TRY(waitpid(pid, NULL, 0));
    return probe_pass();
}
