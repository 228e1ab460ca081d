// SPDX-License-Identifier: Apache-2.0
// A grandchild in a session whose leader has ended.
#include "probe.h"

#include <sys/prctl.h>

int main(int argc, char **argv)
{
    probe_start(argc, argv);
    PROBE_TRY(prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0));
    int ends[2];
    PROBE_TRY(pipe(ends));
    const pid_t leader = PROBE_TRY(fork());
    if (leader == 0) {
        PROBE_TRY(setsid());
        if (PROBE_TRY(fork()) == 0) {
            char byte;
            PROBE_TRY(close(ends[1]));
            _exit(read(ends[0], &byte, 1) == 0 ? 5 : 6);
        }
        _exit(0);
    }
    PROBE_TRY(waitpid(leader, NULL, 0));
    do {
        probe_ready();
        PROBE_SABOTAGE("grandchild", (close(ends[1]), waitpid(-1, NULL, 0)));
        probe_equal("grandchild that waits", 0, waitpid(-1, NULL, WNOHANG));
    } while (probe_more());
    PROBE_TRY(close(ends[1]));
    int status = 0;
    PROBE_TRY(waitpid(-1, &status, 0));
    probe_equal("status of the grandchild", 5, WEXITSTATUS(status));
    return probe_pass();
}
