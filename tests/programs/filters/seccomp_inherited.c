// SPDX-License-Identifier: Apache-2.0
// A filter that a child has inherited, and a second one that the child has put on itself.
#include "filter.h"

static void forbid_sync(int error)
{
    const struct sock_filter rules[] = {FILTER_BEGIN, FILTER_ANSWER(SYS_sync, FILTER_FAIL(error)),
                                        FILTER_ELSE(SECCOMP_RET_ALLOW)};
    filter_on(rules, sizeof rules / sizeof rules[0], 0);
}

static int sync_error(void)
{
    errno = 0;
    syscall(SYS_sync);
    return errno;
}

static void child(void)
{
    filter_getpriority(EXDEV, 0);
    probe_await_check();
    probe_equal("error that the child has inherited", ENOTBLK, sync_error());
    probe_equal("error of the child's own filter", EXDEV, filter_error());
}

int main(int argc, char **argv)
{
    probe_start(argc, argv);
    PROBE_TRY(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0));
    forbid_sync(ENOTBLK);
    do {
        const pid_t member = probe_fork(child);
        probe_ready();
        const int error = probe_sabotaged("parent") ? 0 : sync_error();
        probe_equal("error of the parent's filter", ENOTBLK, error);
        probe_equal("error of the child's filter in the parent", 0, filter_error());
        probe_reap("the child", member);
    } while (probe_more());
    return probe_pass();
}
