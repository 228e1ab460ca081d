// SPDX-License-Identifier: Apache-2.0
//
// Descriptors that were looked at while the program ran: whatever happens to them afterwards, they
// are told as a look in the stop tells them.
#include "capture/files/early_descriptors.hpp"

#include "../scratch.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/eventfd.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <vector>

namespace cryo::capture {
namespace {

using resources::Seen;

constexpr int count = 100; // enough for an early look to pay

// This process is the program, too.
class EarlyDescriptorsTest : public testing::Test
{
  protected:
    EarlyDescriptorsTest()
    {
        for (int i = 0; i < count; i++)
            files_.push_back(open_file(name(i)));
    }

    std::string name(int i) const { return directory_ / ("file." + std::to_string(i)); }
    static Fd open_file(const std::string &path, int flags = O_RDWR)
    {
        return Fd(open(path.c_str(), flags | O_CREAT | O_CLOEXEC, 0600));
    }
    int number(int i) const { return files_.at(static_cast<size_t>(i)).get(); }
    // Closes the file, and puts something else at its number.
    void exchange(int i, Fd other)
    {
        ASSERT_EQ(number(i), dup3(other.get(), number(i), O_CLOEXEC));
    }

    // Whether a look now has taken something from before.
    bool is_early(int i) { return is_early_number(number(i)); }
    bool is_early_number(int fd)
    {
        const Result<Seen> now = listing_.look_at(fd);
        const Result<std::optional<Seen>> seen = early_.look_at(fd, listing_);
        EXPECT_TRUE(now && seen && *seen) << fd;
        if (!now || !seen || !*seen)
            return false;
        EXPECT_EQ(now->fd, (*seen)->fd);
        EXPECT_EQ(now->info, (*seen)->info);
        EXPECT_EQ(now->position, (*seen)->position);
        EXPECT_EQ(now->flags, (*seen)->flags);
        EXPECT_EQ(now->close_on_exec, (*seen)->close_on_exec);
        EXPECT_EQ(now->status.st_dev, (*seen)->status.st_dev);
        EXPECT_EQ(now->status.st_ino, (*seen)->status.st_ino);
        if (!(*seen)->early) {
            EXPECT_EQ(now->link, (*seen)->link);
        }
        return (*seen)->early;
    }
    bool is_closed(int fd)
    {
        const Result<std::optional<Seen>> seen = early_.look_at(fd, listing_);
        return seen && !*seen;
    }
    void look() { early_ = EarlyDescriptors::at(proc_); }

    const Scratch directory_;
    std::vector<Fd> files_;
    const Proc proc_{getpid()};
    DescriptorListing listing_{proc_};
    EarlyDescriptors early_;
};

TEST_F(EarlyDescriptorsTest, WhatHasNotChangedIsTakenFromBefore)
{
    look();
    ASSERT_FALSE(early_.empty());
    for (int i = 0; i < count; i++)
        EXPECT_TRUE(is_early(i)) << i;
    EXPECT_GE(EarlyDescriptors::infos(), size_t(count));
    early_.close_infos();
    EXPECT_EQ(0U, EarlyDescriptors::infos());
    EXPECT_TRUE(is_early(0));
    EXPECT_GE(early_.numbers().size(), size_t(count));
}

TEST_F(EarlyDescriptorsTest, FewAreNotLookedAt)
{
    files_.clear();
    look();
    EXPECT_TRUE(early_.empty());
}

TEST_F(EarlyDescriptorsTest, PositionFlagsAndLocksAreReadAgain)
{
    look();
    ASSERT_EQ(5, lseek(number(0), 5, SEEK_SET));
    ASSERT_EQ(0, fcntl(number(1), F_SETFL, O_APPEND | O_NONBLOCK));
    ASSERT_EQ(0, fcntl(number(2), F_SETFD, 0));
    ASSERT_EQ(0, flock(number(3), LOCK_EX));
    for (int i = 0; i < 5; i++)
        EXPECT_TRUE(is_early(i)) << i;
}

TEST_F(EarlyDescriptorsTest, ClosedOnes)
{
    look();
    const int closed = number(7);
    files_[7].reset();
    EXPECT_TRUE(is_closed(closed));
    EXPECT_FALSE(is_closed(number(8)));
}

TEST_F(EarlyDescriptorsTest, OtherFilesAtTheSameNumber)
{
    look();
    exchange(0, open_file(directory_ / "another"));
    exchange(1, Fd(eventfd(3, 0)));
    exchange(2, Fd(open(directory_.path().c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)));
    exchange(3, Fd(open("/dev/null", O_RDWR | O_CLOEXEC)));
    for (int i = 0; i < 4; i++)
        EXPECT_FALSE(is_early(i)) << i;
    exchange(4, Fd(dup(number(5))));
    EXPECT_FALSE(is_early(4));
    EXPECT_TRUE(is_early(5));
}

TEST_F(EarlyDescriptorsTest, FilesOpenedSince)
{
    look();
    const Fd fresh = open_file(name(1));
    EXPECT_FALSE(is_early_number(fresh.get()));
}

TEST_F(EarlyDescriptorsTest, FilesThatMayHaveAnotherNameAreNotTakenFromBefore)
{
    ASSERT_EQ(0, link(name(0).c_str(), (directory_ / "second").c_str()));
    ASSERT_EQ(0, unlink(name(1).c_str()));
    ASSERT_EQ(0, rename(name(2).c_str(), name(3).c_str()));
    look();
    EXPECT_FALSE(is_early(0));
    EXPECT_FALSE(is_early(1));
    EXPECT_TRUE(is_early(2)); // the kernel knows its new name
    EXPECT_FALSE(is_early(3));
}

TEST_F(EarlyDescriptorsTest, SocketsAndPipes)
{
    int ends[2], pair[2];
    ASSERT_EQ(0, pipe2(ends, O_CLOEXEC));
    ASSERT_EQ(0, socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair));
    std::vector<Fd> all;
    for (const int fd : {ends[0], ends[1], pair[0], pair[1]})
        all.emplace_back(fd);
    look();
    for (const Fd &fd : all)
        EXPECT_TRUE(is_early_number(fd.get()));
    int others[2];
    ASSERT_EQ(0, pipe2(others, O_CLOEXEC));
    ASSERT_EQ(ends[0], dup3(others[0], ends[0], O_CLOEXEC));
    ASSERT_EQ(pair[0], dup3(ends[1], pair[0], O_CLOEXEC));
    all.emplace_back(others[0]);
    all.emplace_back(others[1]);
    EXPECT_FALSE(is_early_number(ends[0]));
    EXPECT_FALSE(is_early_number(pair[0]));
    EXPECT_TRUE(is_early_number(ends[1]));
}

TEST_F(EarlyDescriptorsTest, KeepsDescriptorsForOthers)
{
    rlimit limit;
    ASSERT_EQ(0, getrlimit(RLIMIT_NOFILE, &limit));
    const rlimit low = {240, limit.rlim_max};
    ASSERT_EQ(0, setrlimit(RLIMIT_NOFILE, &low));
    look();
    ASSERT_EQ(0, setrlimit(RLIMIT_NOFILE, &limit));
    EXPECT_EQ(80U, EarlyDescriptors::infos());
    for (int i = 0; i < count; i++)
        EXPECT_TRUE(is_early(i)) << i;
}

} // namespace
} // namespace cryo::capture
