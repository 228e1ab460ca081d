// SPDX-License-Identifier: Apache-2.0
// Two children that share their working directory, root and umask (CLONE_FS) with each other, and
// not with their parent.
#include "probe.h"

#include <sched.h>

static int wait_on(void *unused)
{
    (void)unused;
    probe_await_check();
    return 5;
}

int main(int argc, char **argv)
{
    static char stacks[2][64 << 10] __attribute__((aligned(16)));
    probe_start(argc, argv);
    do {
        pid_t children[2];
        for (int i = 0; i < 2; i++) {
            children[i] =
                PROBE_TRY(clone(wait_on, stacks[i] + sizeof stacks[i], CLONE_FS | SIGCHLD, NULL));
        }
        PROBE_TRY(unshare(CLONE_FS));
        probe_ready();
        PROBE_SABOTAGE("child", children[0] = getpid()); // which is no child
        for (int i = 0; i < 2; i++) {
            int status = 0;
            probe_equal("child", children[i], waitpid(children[i], &status, 0));
            probe_equal("status of the child", 5, WEXITSTATUS(status));
        }
    } while (probe_more());
    return probe_pass();
}
