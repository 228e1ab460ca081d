// SPDX-License-Identifier: Apache-2.0
//
// Filters of system calls (seccomp) that a test program puts on itself.
//
//     const struct sock_filter rules[] = {FILTER_BEGIN, FILTER_ANSWER(SYS_getpriority,
//     FILTER_FAIL(EXDEV)),
//                                         FILTER_ELSE(SECCOMP_RET_ALLOW)};
//     filter_on(rules, sizeof rules / sizeof rules[0], 0);
#ifndef CRYO_TESTS_PROGRAMS_FILTER_H
#define CRYO_TESTS_PROGRAMS_FILTER_H

#include "probe.h"

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/resource.h>

#define FILTER_BEGIN BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr))
#define FILTER_ANSWER(number, answer)                                                              \
    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (number), 0, 1), BPF_STMT(BPF_RET | BPF_K, (answer))
#define FILTER_ELSE(answer) BPF_STMT(BPF_RET | BPF_K, (answer))
#define FILTER_FAIL(error) (SECCOMP_RET_ERRNO | (error))

// Returns what seccomp(2) returns: with SECCOMP_FILTER_FLAG_NEW_LISTENER, a descriptor.
static inline long filter_on(const struct sock_filter *rules, size_t count, unsigned flags)
{
    const struct sock_fprog filter = {.len = (unsigned short)count,
                                      .filter = (struct sock_filter *)rules};
    return PROBE_TRY(syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, flags, &filter));
}

// From now on getpriority(2) fails so in this thread, or in all (SECCOMP_FILTER_FLAG_TSYNC).
static inline long filter_getpriority(int error, unsigned flags)
{
    const struct sock_filter rules[] = {FILTER_BEGIN,
                                        FILTER_ANSWER(SYS_getpriority, FILTER_FAIL(error)),
                                        FILTER_ELSE(SECCOMP_RET_ALLOW)};
    return filter_on(rules, sizeof rules / sizeof rules[0], flags);
}

// The error of getpriority(2) in this thread; 0: it does not fail.
static inline int filter_error(void)
{
    errno = 0;
    getpriority(PRIO_PROCESS, 0);
    return errno;
}

#endif
