// SPDX-License-Identifier: Apache-2.0
//
// How processes look that have ended, or whose first thread has.
#include "look/members.hpp"

#include <csignal>
#include <gtest/gtest.h>
#include <pthread.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

namespace cryo::capture {
namespace {

TEST(HasEnded, TellsWhoDoesNothingAnyMore)
{
    EXPECT_FALSE(has_ended(getpid()));
    const pid_t child = fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
        for (;;)
            pause();
    }
    EXPECT_FALSE(has_ended(child));
    kill(child, SIGKILL);
    siginfo_t info = {};
    ASSERT_EQ(waitid(P_PID, static_cast<id_t>(child), &info, WEXITED | WNOWAIT), 0);
    EXPECT_TRUE(has_ended(child)); // it is a zombie
    ASSERT_EQ(waitpid(child, nullptr, 0), child);
    EXPECT_TRUE(has_ended(child)); // it has been reaped
}

// /proc/PID itself then looks like that of a process that has ended.
TEST(HasEnded, NotBeforeItsLastThread)
{
    const pid_t child = fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
        pthread_t other;
        pthread_create(
            &other, nullptr,
            [](void *) -> void * {
                for (;;)
                    pause();
            },
            nullptr);
        syscall(SYS_exit, 0);
    }
    Result<Relation> now = relation_of(child);
    while (now && !now->ended)
        now = relation_of(child);
    ASSERT_TRUE(now && !now->zombie);
    EXPECT_FALSE(has_ended(child));
    kill(child, SIGKILL);
    siginfo_t info = {};
    ASSERT_EQ(waitid(P_PID, static_cast<id_t>(child), &info, WEXITED | WNOWAIT), 0);
    EXPECT_TRUE(has_ended(child));
    ASSERT_EQ(waitpid(child, nullptr, 0), child);
}

} // namespace
} // namespace cryo::capture
