// SPDX-License-Identifier: Apache-2.0
// Has system calls passed to itself where a byte says so (PR_SET_SYSCALL_USER_DISPATCH).
#include "probe.h"

#include <sys/prctl.h>

enum { set_user_dispatch = 59, on = 1, allow = 0 };

#ifdef BY_NUMBER
#define DISPATCH(...) syscall(SYS_prctl, __VA_ARGS__)
#else
#define DISPATCH(...) prctl(__VA_ARGS__)
#endif

static volatile char selector = allow;

int main(int argc, char **argv)
{
    probe_start(argc, argv);
    PROBE_TRY(DISPATCH(set_user_dispatch, on, 0L, 0L, &selector));
    do {
        probe_ready();
        probe_equal("what the byte says", allow, selector);
    } while (probe_more());
    return probe_pass();
}
