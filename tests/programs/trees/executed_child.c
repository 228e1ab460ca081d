// SPDX-License-Identifier: Apache-2.0
// A child that executed another program: it continues, answers through its pipes, and is killed.
#include "probe.h"

int main(int argc, char **argv)
{
    probe_start(argc, argv);
    int into[2], out_of[2];
    PROBE_TRY(pipe2(into, O_CLOEXEC));
    PROBE_TRY(pipe2(out_of, O_CLOEXEC));
    const pid_t child = PROBE_TRY(fork());
    if (child == 0) {
        dup2(into[0], 0);
        dup2(out_of[1], 1);
        execlp("cat", "cat", "-u", (char *)NULL);
        _exit(127);
    }
    close(into[0]);
    close(out_of[1]);
    probe_await_blocked(child, SYS_read);
    do {
        char got[16] = "";
        probe_ready();
        PROBE_TRY(write(into[1], probe_sabotaged("echo") ? "x" : "e", 1));
        probe_equal("bytes of the echo", 1, read(out_of[0], got, sizeof got));
        probe_equal_text("echo", "e", got);
        probe_await_blocked(child, SYS_read);
    } while (probe_more());
    int status;
    PROBE_TRY(kill(child, SIGTERM));
    PROBE_TRY(waitpid(child, &status, 0));
    probe_equal("signal that ended the child", SIGTERM, WTERMSIG(status));
    return probe_pass();
}
