// SPDX-License-Identifier: Apache-2.0
// A child that shares its parent's descriptor table (CLONE_FILES).
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
    static char stack[64 << 10] __attribute__((aligned(16)));
    probe_start(argc, argv);
    do {
        const pid_t child =
            PROBE_TRY(clone(wait_on, stack + sizeof stack, CLONE_FILES | SIGCHLD, NULL));
        probe_ready();
        PROBE_SABOTAGE("child", (kill(child, SIGKILL), waitpid(child, NULL, 0)));
        int status = 0;
        probe_equal("child", child, waitpid(child, &status, 0));
        probe_equal("status of the child", 5, WEXITSTATUS(status));
    } while (probe_more());
    return probe_pass();
}
