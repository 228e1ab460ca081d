// SPDX-License-Identifier: Apache-2.0
// A seccomp filter that forbids one system call (getpriority) and lets all others pass.
#include "probe.h"

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/resource.h>

int main(int argc, char **argv)
{
    probe_start(argc, argv);
    struct sock_filter rules[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_getpriority, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EXDEV),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    const struct sock_fprog filter = {.len = sizeof rules / sizeof rules[0], .filter = rules};
    PROBE_TRY(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0));
    PROBE_TRY(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter));
    do {
        probe_ready();
        errno = 0;
        const int priority = getpriority(PRIO_PROCESS, 0);
        PROBE_SABOTAGE("forbidden", errno = 0);
        probe_equal("error of the forbidden call", EXDEV, errno);
        probe_equal("result of the forbidden call", -1, priority);
    } while (probe_more());
    return probe_pass();
}
