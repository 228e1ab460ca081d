// SPDX-License-Identifier: Apache-2.0
// Named memory that ranks have in common is found by each of them, whatever mode it has.
#include "restore/common_memory.hpp"

#include "../scratch.hpp"

#include <cerrno>
#include <cstdlib>
#include <fcntl.h>
#include <fmt/format.h>
#include <fstream>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

namespace cryo::restore {

namespace {

constexpr uid_t nobody = 65534;

// In a child that no mode lets do everything, as it lets root.
class CommonMemoryTest : public testing::Test
{
  protected:
    CommonMemoryTest() { EXPECT_EQ(0, chmod(dir_.path().c_str(), 01777)); }
    ~CommonMemoryTest() override { unlink(shared_.c_str()); }

    template <class Work>
    static void as_user(const Work &work)
    {
        const pid_t child = fork();
        ASSERT_GE(child, 0);
        if (child == 0) {
            const bool is_user = geteuid() != 0 || setresuid(nobody, nobody, nobody) == 0;
            if (is_user)
                work();
            _exit(is_user && !testing::Test::HasFailure() ? 0 : 1);
        }
        int status = 0;
        ASSERT_EQ(child, waitpid(child, &status, 0));
        EXPECT_EQ(0, status);
    }
    static ino_t inode_of(int fd)
    {
        struct stat status = {};
        EXPECT_EQ(0, fstat(fd, &status));
        return status.st_ino;
    }
    static mode_t mode_of(const std::string &path)
    {
        struct stat status = {};
        EXPECT_EQ(0, lstat(path.c_str(), &status));
        return status.st_mode & 07777;
    }
    static Result<bool> is_not_there() { return false; }

    Scratch dir_;
    image::File shared_file() const // with "abc" in it
    {
        image::File file;
        file.path = shared_;
        file.size = 3;
        return file;
    }

    const std::string beside_ = dir_ / "segment.cryo.12-0a1b2c3d";
    // Of memory that ranks have in common.
    const std::string shared_ = fmt::format("/dev/shm/cryo-test.{}", getpid());
};

} // namespace

TEST_F(CommonMemoryTest, ARankFindsWhatAnotherHasMadeWithoutAnyMode)
{
    as_user([&] {
        Result<std::optional<CommonMemory>> one = CommonMemory::open(beside_, is_not_there);
        ASSERT_TRUE(one) << one.error().text();
        ASSERT_TRUE(*one);
        EXPECT_EQ(beside_, (*one)->path);
        ASSERT_EQ(0, fchmod((*one)->fd.get(), 0));
        (*one)->lock.reset();
        const Result<std::optional<CommonMemory>> other = CommonMemory::open(beside_, is_not_there);
        ASSERT_TRUE(other) << other.error().text();
        ASSERT_TRUE(*other);
        EXPECT_NE(beside_, (*other)->path);
        EXPECT_EQ(inode_of((*one)->fd.get()), inode_of((*other)->fd.get()));
        EXPECT_EQ(3, pwrite((*other)->fd.get(), "abc", 3, 0));
        EXPECT_EQ(0U, mode_of(beside_));
    });
}

TEST_F(CommonMemoryTest, ALateRankReadsWhatHasItsNameAlready)
{
    ASSERT_EQ(0, setenv("CRYO_JOB", "12-0a1b2c3d:secret", 1));
    image::File file = shared_file();
    as_user([&] {
        const Result<std::optional<Fd>> none = open_in_place(file);
        ASSERT_TRUE(none);
        EXPECT_FALSE(*none);
        std::ofstream(shared_) << "abc";
        ASSERT_EQ(0, chmod(shared_.c_str(), 0));
        const Result<std::optional<Fd>> there = open_in_place(file);
        ASSERT_TRUE(there) << there.error().text();
        ASSERT_TRUE(*there);
        char text[4] = {};
        EXPECT_EQ(3, read((*there)->get(), text, 3));
        EXPECT_STREQ("abc", text);
        EXPECT_EQ(0U, mode_of(shared_));
    });
    unlink(shared_.c_str());
    unsetenv("CRYO_JOB");
}

TEST_F(CommonMemoryTest, WhatCannotBeReadIsNotTakenForSomethingElse)
{
    if (geteuid() != 0)
        GTEST_SKIP() << "another user's file is needed";
    ASSERT_EQ(0, setenv("CRYO_JOB", "12-0a1b2c3d:secret", 1));
    std::ofstream(shared_) << "abc";
    ASSERT_EQ(0, chmod(shared_.c_str(), 0600));
    image::File file = shared_file();
    as_user([&] {
        const Result<std::optional<Fd>> there = open_in_place(file);
        ASSERT_FALSE(there);
        EXPECT_EQ(EACCES, there.error().code());
        EXPECT_TRUE(there.error().text().starts_with(shared_)) << there.error().text();
        file.size = 4; // another one for sure
        const Result<std::optional<Fd>> other = open_in_place(file);
        ASSERT_TRUE(other);
        EXPECT_FALSE(*other);
    });
    unsetenv("CRYO_JOB");
}

} // namespace cryo::restore
