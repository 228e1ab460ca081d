// SPDX-License-Identifier: Apache-2.0
// Children that have ended but were not reaped: exit status, or the signal that killed them.
#include "probe.h"

int main(int argc, char **argv)
{
    probe_start(argc, argv);
    do {
        siginfo_t info;
        const pid_t ended = PROBE_TRY(fork());
        if (ended == 0) {
            _exit(42);
        }
        const pid_t killed = PROBE_TRY(fork());
        if (killed == 0) {
            pause();
            _exit(0);
        }
        PROBE_TRY(kill(killed, SIGKILL));
        PROBE_TRY(waitid(P_PID, (id_t)ended, &info, WEXITED | WNOWAIT));
        PROBE_TRY(waitid(P_PID, (id_t)killed, &info, WEXITED | WNOWAIT));
        probe_ready();
        int status = 0;
        PROBE_SABOTAGE("status", waitpid(ended, &status, 0));
        probe_equal("status of the one that exited: pid", ended, waitpid(ended, &status, 0));
        probe_true("exited", WIFEXITED(status));
        probe_equal("exit status", 42, WEXITSTATUS(status));
        probe_equal("the one that was killed", killed, waitpid(killed, &status, 0));
        probe_equal("signal it was killed by", SIGKILL, WIFSIGNALED(status) ? WTERMSIG(status) : 0);
        probe_equal("children left", -1, waitpid(-1, &status, 0));
    } while (probe_more());
    return probe_pass();
}
