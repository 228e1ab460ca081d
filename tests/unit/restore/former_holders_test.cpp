// SPDX-License-Identifier: Apache-2.0
// A restart waits for ids whose holders have ended, and for no others.
#include "look/former_holders.hpp"

#include <cerrno>
#include <csignal>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

namespace {

using cryo::restore::await_free;

pid_t ended_child()
{
    const pid_t child = fork();
    if (child == 0)
        _exit(0);
    siginfo_t info;
    waitid(P_PID, static_cast<id_t>(child), &info, WEXITED | WNOWAIT);
    return child;
}

TEST(FormerHolders, OneThatIsReapedLaterIsWaitedFor)
{
    const pid_t child = ended_child();
    std::thread reaper([child] {
        usleep(20'000); // most likely the id is being waited for by then; any order is right
        waitpid(child, nullptr, 0);
    });
    EXPECT_TRUE(await_free({child}));
    EXPECT_EQ(kill(child, 0), -1);
    reaper.join();
}

TEST(FormerHolders, OneThatNobodyReapsIsNamedWithItsParent)
{
    const pid_t child = ended_child();
    const auto free = await_free({child}, 10);
    ASSERT_FALSE(free);
    EXPECT_EQ(free.error().code(), EBUSY);
    EXPECT_NE(free.error().text().find(std::to_string(child)), std::string::npos);
    EXPECT_NE(free.error().text().find(std::to_string(getpid())), std::string::npos);
    waitpid(child, nullptr, 0);
}

TEST(FormerHolders, OneThatEndsSoonIsWaitedFor)
{
    int ends[2];
    ASSERT_EQ(pipe(ends), 0);
    const pid_t child = fork();
    if (child == 0) {
        char byte;
        close(ends[1]);
        _exit(read(ends[0], &byte, 1) == 0 ? 0 : 1);
    }
    EXPECT_FALSE(await_free({child}, 0, 1));
    std::thread reaper([child, end = ends[1]] {
        close(end);
        waitpid(child, nullptr, 0);
    });
    EXPECT_TRUE(await_free({child}, 30'000, 30'000));
    reaper.join();
    close(ends[0]);
}

TEST(FormerHolders, TheLivingAndTheUnusedAreNotWaitedFor)
{
    EXPECT_TRUE(await_free({0x7ffffff0}, 0, 0));
    const auto free = await_free({0x7ffffff0, getpid()}, 0);
    ASSERT_FALSE(free);
    EXPECT_EQ(free.error().code(), EBUSY);
    EXPECT_NE(free.error().text().find(fmt::format("pid {} is in use", getpid())),
              std::string::npos);
}

} // namespace
