// SPDX-License-Identifier: Apache-2.0
// A child in a namespace of its own, where it has another host name.
#include "probe.h"

#include <sched.h>

static void leave(void)
{
    char name[64];
    PROBE_TRY(unshare(CLONE_NEWUTS));
    PROBE_TRY(sethostname("elsewhere", 9));
    probe_await_check();
    PROBE_TRY(gethostname(name, sizeof(name)));
    PROBE_SABOTAGE("host name", name[0] = 'E');
    probe_equal_text("host name of the child", "elsewhere", name);
}

int main(int argc, char **argv)
{
    probe_start(argc, argv);
    do {
        pid_t child = probe_fork(leave);
        probe_ready();
        probe_reap("the child", child);
    } while (probe_more());
    return probe_pass();
}
