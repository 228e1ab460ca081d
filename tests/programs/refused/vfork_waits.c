// SPDX-License-Identifier: Apache-2.0
// A child that waits in vfork() for a long time: its own child uses its memory.
#include "probe.h"

static int ends[2];
static int there[2]; // on which the process that uses the other's memory says so

static void wait_in_vfork(void)
{
    PROBE_TRY(close(ends[1]));
    const pid_t child = vfork();
    if (child == 0) {
        char byte = 0;
        _exit(write(there[1], &byte, 1) == 1 && read(ends[0], &byte, 1) == 0 ? 5 : 6);
    }
    int status = 0;
    _exit(waitpid(child, &status, 0) == child ? WEXITSTATUS(status) : 1);
}

int main(int argc, char **argv)
{
    probe_start(argc, argv);
    PROBE_TRY(pipe(ends));
    PROBE_TRY(pipe(there));
    const pid_t pid = PROBE_TRY(fork());
    if (pid == 0) {
        wait_in_vfork();
    }
    PROBE_TRY(close(ends[0]));
    char byte;
    probe_equal("word of the one that waits", 1, PROBE_TRY(read(there[0], &byte, 1)));
    do {
        probe_ready();
        PROBE_SABOTAGE("child", (kill(pid, SIGKILL), waitpid(pid, NULL, 0)));
        probe_equal("child that waits", 0, waitpid(pid, NULL, WNOHANG));
    } while (probe_more());
    PROBE_TRY(close(ends[1]));
    int status = 0;
    PROBE_TRY(waitpid(pid, &status, 0));
    probe_equal("status of the child", 5, WEXITSTATUS(status));
    return probe_pass();
}
