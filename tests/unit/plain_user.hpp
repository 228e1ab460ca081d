// SPDX-License-Identifier: Apache-2.0
//
// Root may read and write whatever a mode forbids; so what depends on modes is tried by a process
// of another user.
//
//     EXPECT_TRUE(holds_for_plain_user(dir, [&] { return access(path, W_OK) != 0; }));
#pragma once

#include <functional>
#include <gtest/gtest.h>
#include <string>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

namespace cryo {

// `directory` is that user's from then on, if this is root.
inline bool holds_for_plain_user(const std::string &directory, const std::function<bool()> &what)
{
    constexpr uid_t plain = 1000;
    if (geteuid() != 0)
        return what();
    EXPECT_EQ(0, chown(directory.c_str(), plain, plain));
    const pid_t child = fork();
    if (child == 0) {
        // What belongs to it in /proc is root's otherwise.
        const bool is_plain = setresgid(plain, plain, plain) == 0 &&
                              setresuid(plain, plain, plain) == 0 &&
                              prctl(PR_SET_DUMPABLE, 1, 0, 0, 0) == 0;
        _exit(is_plain && what() ? 0 : 1);
    }
    int status = -1;
    EXPECT_EQ(child, waitpid(child, &status, 0));
    return status == 0;
}

} // namespace cryo
