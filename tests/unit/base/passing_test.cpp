// SPDX-License-Identifier: Apache-2.0
//
// Packets whose sender closes the socket right after: none is lost.
#include "base/passing.hpp"

#include <array>
#include <cerrno>
#include <functional>
#include <gtest/gtest.h>
#include <string>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <utility>

using cryo::Fd;

namespace {

// Runs after the kernel has found no packet and before it reports end of file, which recv returns.
std::function<void()> between;

bool is_between()
{
    if (!between)
        return false;
    std::exchange(between, nullptr)();
    return true;
}

} // namespace

// Replaces the C library's.
extern "C" ssize_t recv(int from, void *to, size_t size, int flags)
{
    return is_between() ? 0 : syscall(SYS_recvfrom, from, to, size, flags, nullptr, nullptr);
}

extern "C" ssize_t recvmsg(int from, msghdr *message, int flags)
{
    if (!is_between())
        return syscall(SYS_recvmsg, from, message, flags);
    message->msg_controllen = 0;
    message->msg_flags = 0;
    return 0;
}

namespace {

class Passing : public testing::Test
{
  protected:
    void SetUp() override
    {
        std::array<int, 2> ends{};
        ASSERT_EQ(0, socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends.data()));
        here.reset(ends[0]);
        there.reset(ends[1]);
    }
    void say_and_hang_up(int passed)
    {
        const std::string word = "word";
        EXPECT_EQ(4, cryo::send_with(there.get(), word, {&passed, passed >= 0 ? 1U : 0U}));
        there.reset();
    }
    ssize_t receive(int flags)
    {
        room.fill(0);
        return cryo::receive_packet(here.get(), room, flags);
    }
    ssize_t receive_with(int flags)
    {
        room.fill(0);
        return cryo::receive_with(here.get(), room, fds, flags);
    }

    Fd here, there;
    std::array<char, 16> room{};
    std::vector<Fd> fds;
};

TEST_F(Passing, NothingYet)
{
    EXPECT_EQ(-1, receive(MSG_DONTWAIT));
    EXPECT_EQ(EAGAIN, errno);
    EXPECT_EQ(-1, receive_with(MSG_DONTWAIT));
    EXPECT_EQ(EAGAIN, errno);
}

TEST_F(Passing, TheEndIsSaidWhenThereIsNothingMore)
{
    say_and_hang_up(-1);
    EXPECT_EQ(4, receive(0));
    EXPECT_EQ(0, receive(0));
    EXPECT_EQ(0, receive_with(MSG_DONTWAIT));
}

TEST_F(Passing, SentAndHungUpWhileItIsLookedFor)
{
    for (const int flags : {0, int(MSG_DONTWAIT)}) {
        SetUp();
        between = [this] { say_and_hang_up(-1); };
        EXPECT_EQ(4, receive(flags));
        EXPECT_STREQ("word", room.data());
        EXPECT_EQ(0, receive(flags));
    }
}

TEST_F(Passing, DescriptorsSentAndHungUpWhileTheyAreLookedFor)
{
    for (const int flags : {0, int(MSG_DONTWAIT)}) {
        SetUp();
        fds.clear();
        between = [this] { say_and_hang_up(STDIN_FILENO); };
        EXPECT_EQ(4, receive_with(flags));
        EXPECT_STREQ("word", room.data());
        EXPECT_EQ(1U, fds.size());
        EXPECT_EQ(0, receive_with(flags));
    }
}

// A peer that closes with unread data resets the connection; the kernel reports the reset first.
TEST_F(Passing, WhatCameBeforeAReset)
{
    for (const int flags : {0, int(MSG_DONTWAIT)}) {
        SetUp();
        EXPECT_EQ(4, cryo::send_with(here.get(), std::string("left"), {}));
        say_and_hang_up(-1);
        EXPECT_EQ(4, receive(flags));
        EXPECT_EQ(0, receive(flags));
    }
}

} // namespace
