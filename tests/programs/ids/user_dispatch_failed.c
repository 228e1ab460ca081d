// SPDX-License-Identifier: Apache-2.0
// Has asked for system calls to be passed to itself (PR_SET_SYSCALL_USER_DISPATCH) with arguments
// that the kernel does not take: nothing stands against a checkpoint.
#include "probe.h"

#include <sys/prctl.h>

int main(int argc, char **argv)
{
    enum { set_user_dispatch = 59, no_mode = 99 };
    probe_start(argc, argv);
    probe_equal("by name", -1, prctl(set_user_dispatch, no_mode, 0L, 0L, 0L));
    probe_equal("by number", -1, syscall(SYS_prctl, set_user_dispatch, no_mode, 0L, 0L, 0L));
    do {
        probe_ready();
        probe_equal("its error", -1, prctl(set_user_dispatch, no_mode, 0L, 0L, 0L));
    } while (probe_more());
    return probe_pass();
}
