// SPDX-License-Identifier: Apache-2.0
#include "look/sharing.hpp"

#include <csignal>
#include <gtest/gtest.h>
#include <linux/ioprio.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

namespace cryo::capture {

namespace {

using Groups = std::vector<std::vector<size_t>>;

// Children that live as long as the test.
class Sharing : public testing::Test
{
  protected:
    void SetUp() override
    {
        if (!are_sharers(CLONE_FS, getpid(), getpid()))
            GTEST_SKIP() << "kcmp(2) may not be called here";
    }
    void TearDown() override
    {
        for (const pid_t one : pids_) {
            kill(one, SIGKILL);
            waitpid(one, nullptr, 0);
        }
    }
    void make(uint64_t shares)
    {
        const long pid = syscall(SYS_clone, shares | SIGCHLD, 0, 0, 0, 0);
        if (pid == 0) {
            prctl(PR_SET_PDEATHSIG, SIGKILL);
            for (;;)
                pause();
        }
        ASSERT_GT(pid, 0);
        pids_.push_back(static_cast<pid_t>(pid));
    }

    std::vector<pid_t> pids_;
};

TEST_F(Sharing, OfTheWorkingDirectory)
{
    make(0);
    make(CLONE_FS);
    make(CLONE_FILES);
    make(CLONE_FS);
    EXPECT_EQ(sharers(CLONE_FS, pids_), (Groups{{1, 3}}));
    EXPECT_EQ(are_sharers(CLONE_FS, pids_[1], getpid()), true);
    EXPECT_EQ(are_sharers(CLONE_FS, pids_[0], getpid()), false);
    EXPECT_EQ(sharers(CLONE_FILES, {pids_[0], pids_[1], pids_[2], getpid()}), (Groups{{2, 3}}));
}

TEST_F(Sharing, NotOfWhatTheyDoNotHave)
{
    make(0);
    make(0);
    EXPECT_EQ(are_sharers(CLONE_SYSVSEM, pids_[0], pids_[1]), true);
    EXPECT_EQ(sharers(CLONE_SYSVSEM, pids_), Groups());
    make(CLONE_SYSVSEM);
    make(CLONE_SYSVSEM);
    EXPECT_EQ(sharers(CLONE_SYSVSEM, pids_), (Groups{{2, 3}}));
}

TEST_F(Sharing, OfIoContexts)
{
    make(0);
    make(0);
    EXPECT_EQ(sharers(CLONE_IO, pids_), Groups());
    constexpr int priority = IOPRIO_PRIO_VALUE(IOPRIO_CLASS_BE, 5);
    if (syscall(SYS_ioprio_set, IOPRIO_WHO_PROCESS, 0, priority) != 0)
        GTEST_SKIP() << "I/O priorities may not be set here";
    make(CLONE_IO);
    make(0); // it gets a context of its own, because ours has a priority
    make(CLONE_IO);
    EXPECT_EQ(sharers(CLONE_IO, pids_), (Groups{{2, 4}}));
    EXPECT_EQ(syscall(SYS_ioprio_get, IOPRIO_WHO_PROCESS, 0), priority);
}

TEST_F(Sharing, LeavesOutWhoHasEnded)
{
    make(CLONE_FS);
    make(CLONE_FS);
    make(CLONE_FS);
    kill(pids_[1], SIGKILL);
    siginfo_t info = {};
    ASSERT_EQ(waitid(P_PID, static_cast<id_t>(pids_[1]), &info, WEXITED | WNOWAIT), 0);
    EXPECT_EQ(sharers(CLONE_FS, pids_), (Groups{{0, 2}}));
    EXPECT_EQ(sharers(CLONE_FS, {}), Groups());
}

} // namespace

} // namespace cryo::capture
