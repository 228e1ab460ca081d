// SPDX-License-Identifier: Apache-2.0
// A filter that asks a process for the answer to one system call (SECCOMP_RET_USER_NOTIF).
#include "filter.h"

int main(int argc, char **argv)
{
    probe_start(argc, argv);
    const struct sock_filter rules[] = {FILTER_BEGIN,
                                        FILTER_ANSWER(SYS_getpriority, SECCOMP_RET_USER_NOTIF),
                                        FILTER_ELSE(SECCOMP_RET_ALLOW)};
    PROBE_TRY(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0));
    const long listener =
        filter_on(rules, sizeof rules / sizeof rules[0], SECCOMP_FILTER_FLAG_NEW_LISTENER);
    PROBE_TRY(close((int)listener)); // nobody listens: the call fails
    do {
        probe_ready();
        probe_equal("error of the unanswered call", probe_sabotaged("unanswered") ? 0 : ENOSYS,
                    filter_error());
    } while (probe_more());
    return probe_pass();
}
