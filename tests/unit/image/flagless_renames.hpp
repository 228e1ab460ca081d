// SPDX-License-Identifier: Apache-2.0
//
// Runs a part of a test where no rename has flags, as on NFS and 9p: in a child, by a filter of
// system calls.
//
//     const int status = where_renames_have_no_flags([] { EXPECT_TRUE(...); });
//     if (status == no_filter)
//         GTEST_SKIP() << "no seccomp";
//     EXPECT_EQ(0, status);
#pragma once

#include <cerrno>
#include <cstddef>
#include <cstdio>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <iterator>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

namespace cryo::image {

inline constexpr int no_filter = 77 << 8;

inline bool refuse_flags_of_renames()
{
    constexpr unsigned flags = offsetof(seccomp_data, args) + 4 * sizeof(uint64_t);
    sock_filter rules[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_renameat2, 0, 3),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, flags),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, 0, 1, 0),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EINVAL),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    const sock_fprog filter = {std::size(rules), rules};
    return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
           prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) == 0;
}

// Returns the child's wait status: 0 if nothing in it failed.
template <class Body>
int where_renames_have_no_flags(const Body &body)
{
    fflush(nullptr);
    const pid_t child = fork();
    if (child == 0) {
        if (!refuse_flags_of_renames())
            _exit(no_filter >> 8);
        EXPECT_TRUE(renameat2(AT_FDCWD, "/absent", AT_FDCWD, "/absent", RENAME_NOREPLACE) != 0 &&
                    errno == EINVAL);
        body();
        fflush(nullptr);
        _exit(testing::Test::HasFailure() ? 1 : 0);
    }
    int status = 0;
    return waitpid(child, &status, 0) == child ? status : -1;
}

} // namespace cryo::image
