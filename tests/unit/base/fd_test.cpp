// SPDX-License-Identifier: Apache-2.0
//
// Fd: one owner, closed exactly once.
#include "base/fd.hpp"

#include <cerrno>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <utility>

namespace {

using cryo::Fd;

int open_null()
{
    return open("/dev/null", O_RDONLY | O_CLOEXEC);
}

bool is_open(int fd)
{
    return fcntl(fd, F_GETFD) >= 0 || errno != EBADF;
}

TEST(Fd, EmptyByDefaultAndWhenOpenFailed)
{
    EXPECT_FALSE(Fd());
    EXPECT_EQ(Fd().get(), -1);
    EXPECT_FALSE(Fd(open("/nonexistent", O_RDONLY | O_CLOEXEC)));
}

TEST(Fd, DescriptorZeroCounts)
{
    Fd zero(0);
    EXPECT_TRUE(zero);
    EXPECT_EQ(zero.release(), 0);
}

TEST(Fd, ClosesAtTheEndOfItsScope)
{
    int raw = open_null();
    ASSERT_GE(raw, 0);
    {
        Fd fd(raw);
        EXPECT_TRUE(fd);
        EXPECT_EQ(fd.get(), raw);
        EXPECT_TRUE(is_open(raw));
    }
    EXPECT_FALSE(is_open(raw));
}

TEST(Fd, MovingHandsOver)
{
    int raw = open_null();
    ASSERT_GE(raw, 0);
    Fd first(raw);
    Fd second(std::move(first));
    EXPECT_FALSE(first); // NOLINT(bugprone-use-after-move): that is what is tested
    EXPECT_EQ(second.get(), raw);
    EXPECT_TRUE(is_open(raw));
}

TEST(Fd, MoveAssignmentClosesTheOldOne)
{
    int old = open_null();
    int kept = open_null();
    ASSERT_GE(old, 0);
    ASSERT_GE(kept, 0);
    Fd fd(old);
    fd = Fd(kept);
    EXPECT_FALSE(is_open(old));
    EXPECT_TRUE(is_open(kept));
    EXPECT_EQ(fd.get(), kept);
}

TEST(Fd, AssignmentToItselfKeepsIt)
{
    Fd fd(open_null());
    int raw = fd.get();
    ASSERT_GE(raw, 0);
    Fd &same = fd;
    fd = std::move(same);
    EXPECT_EQ(fd.get(), raw);
    EXPECT_TRUE(is_open(raw));
}

TEST(Fd, ReleaseGivesUpOwnership)
{
    int raw = -1;
    {
        Fd fd(open_null());
        raw = fd.release();
        ASSERT_GE(raw, 0);
        EXPECT_FALSE(fd);
    }
    EXPECT_TRUE(is_open(raw));
    close(raw);
}

TEST(Fd, ResetClosesAndTakesAnother)
{
    int old = open_null();
    Fd fd(old);
    int next = open_null();
    ASSERT_GE(old, 0);
    ASSERT_GE(next, 0);
    fd.reset(next);
    EXPECT_FALSE(is_open(old));
    EXPECT_EQ(fd.get(), next);
    fd.reset();
    EXPECT_FALSE(is_open(next));
    EXPECT_FALSE(fd);
}

} // namespace
