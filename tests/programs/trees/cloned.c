// SPDX-License-Identifier: Apache-2.0
// A child made by clone(), which runs no pthread_atfork(3) handlers, and a grandchild that it makes
// by fork().
#include "probe.h"

#include <sched.h>
#include <sys/socket.h>

static int ends[2];

// Answers every byte with its successor, until end of file.
static int answer(void *unused)
{
    (void)unused;
    PROBE_TRY(close(ends[0]));
    const pid_t child = PROBE_TRY(fork());
    for (unsigned char byte; child != 0 && read(ends[1], &byte, 1) == 1;) {
        byte++;
        if (write(ends[1], &byte, 1) != 1) {
            break;
        }
    }
    if (child == 0) {
        probe_await_check();
        _exit(0);
    }
    kill(child, SIGKILL);
    return waitpid(child, NULL, 0) == child ? 3 : 4;
}

static void ask(void)
{
    unsigned char byte = 7;
    probe_equal("bytes to the child", 1, write(ends[0], &byte, 1));
    probe_equal("bytes from the child", 1, read(ends[0], &byte, 1));
    probe_equal("answer of the child", 8, byte);
}

int main(int argc, char **argv)
{
    static char stack[64 << 10] __attribute__((aligned(16)));
    probe_start(argc, argv);
    signal(SIGPIPE, SIG_IGN);
    PROBE_TRY(socketpair(AF_UNIX, SOCK_STREAM, 0, ends));
    const pid_t pid = PROBE_TRY(clone(answer, stack + sizeof stack, SIGCHLD, NULL));
    PROBE_TRY(close(ends[1]));
    ask();
    do {
        probe_ready();
        PROBE_SABOTAGE("child", (kill(pid, SIGKILL), waitpid(pid, NULL, 0)));
        ask();
    } while (probe_more());
    PROBE_TRY(shutdown(ends[0], SHUT_WR));
    int status = 0;
    PROBE_TRY(waitpid(pid, &status, 0));
    probe_equal("status of the child", 3, WEXITSTATUS(status));
    return probe_pass();
}
