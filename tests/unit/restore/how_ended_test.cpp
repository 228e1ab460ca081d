// SPDX-License-Identifier: Apache-2.0
#include "restore/how_ended.hpp"

#include <csignal>
#include <gtest/gtest.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

namespace cryo::restore {
namespace {

pid_t child_that_exits(int status)
{
    const pid_t pid = fork();
    if (pid == 0)
        _exit(status);
    return pid;
}

TEST(HowEnded, TellsTheStatus)
{
    const pid_t pid = child_that_exits(3);
    EXPECT_EQ("it exited with status 3", how_ended(pid));
    int status = 0;
    EXPECT_EQ(pid, waitpid(pid, &status, 0)) << "it was waited for";
    EXPECT_EQ(3, WEXITSTATUS(status));
}

TEST(HowEnded, TellsTheSignal)
{
    const pid_t pid = fork();
    if (pid == 0) {
        for (;;)
            pause();
    }
    kill(pid, SIGKILL);
    EXPECT_EQ("it was killed by signal 9 (Killed)", how_ended(pid));
    waitpid(pid, nullptr, 0);
}

TEST(HowEnded, TellsItOfAnothersChild)
{
    int ends[2];
    ASSERT_EQ(0, pipe(ends));
    const pid_t parent = fork();
    if (parent == 0) {
        const pid_t pid = child_that_exits(4);
        if (write(ends[1], &pid, sizeof(pid)) != sizeof(pid))
            _exit(1);
        for (;;)
            pause();
    }
    pid_t pid = 0;
    ASSERT_EQ(static_cast<ssize_t>(sizeof(pid)), read(ends[0], &pid, sizeof(pid)));
    EXPECT_EQ("it exited with status 4", how_ended(pid));
    kill(parent, SIGKILL);
    waitpid(parent, nullptr, 0);
    close(ends[0]);
    close(ends[1]);
}

TEST(HowEnded, IsSilentAboutWhatIsGone)
{
    const pid_t pid = child_that_exits(0);
    waitpid(pid, nullptr, 0);
    EXPECT_EQ("", how_ended(pid));
}

} // namespace
} // namespace cryo::restore
