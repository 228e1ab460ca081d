// SPDX-License-Identifier: Apache-2.0
// A mode that forbids its owner to open a file, and is another one for a moment.
#include "../scratch.hpp"
#include "base/lent_mode.hpp"

#include <cerrno>
#include <chrono>
#include <csignal>
#include <fcntl.h>
#include <fstream>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

namespace cryo {

namespace {

class LentMode : public testing::Test
{
  protected:
    LentMode() { std::ofstream(path_) << "contents"; }

    mode_t mode() const
    {
        struct stat status = {};
        EXPECT_EQ(0, stat(path_.c_str(), &status));
        return status.st_mode & 07777;
    }
    void set(mode_t mode) const { EXPECT_EQ(0, chmod(path_.c_str(), mode)); }
    Found find() const
    {
        Result<Found> found = look_at(path_, Links::followed);
        EXPECT_TRUE(found);
        return std::move(*found);
    }
    // As the mode lets a user who is not root.
    Result<Fd> open(const Found &found) const
    {
        return (mode() & S_IRUSR) != 0 ? open_found(found, O_RDONLY)
                                       : Result<Fd>(Error(EACCES, path_));
    }

    Scratch dir_;
    const std::string path_ = dir_ / "file";
};

} // namespace

TEST_F(LentMode, IsAsBeforeAfterwards)
{
    set(0040);
    const Found found = find();
    EXPECT_TRUE(open_lent(found, O_RDONLY, [&] { return open(found); }));
    EXPECT_EQ(0040U, mode());
    set(02040); // setting it would take a bit away
    const Found of_group = find();
    EXPECT_FALSE(open_lent(of_group, O_RDONLY, [&] { return open(of_group); }));
    EXPECT_EQ(02040U, mode());
}

// As ranks of a job that come back at once have a file in common.
TEST_F(LentMode, IsThatOfNowWhereAnotherProcessHasLentItMeanwhile)
{
    set(0400);
    const Found found = find();
    set(0);
    EXPECT_TRUE(open_lent(found, O_RDONLY, [&] { return open(found); }));
    EXPECT_EQ(0U, mode());
    // Which the other one takes back.
    int tries = 0;
    EXPECT_TRUE(open_lent(found, O_RDONLY, [&] {
        Result<Fd> opened = open(found);
        if (tries++ == 0)
            set(0400);
        return opened;
    }));
    EXPECT_EQ(2, tries);
    EXPECT_EQ(0400U, mode());
}

TEST_F(LentMode, IsGivenBackWhenItsProcessIsKilled)
{
    set(0040);
    const Found found = find();
    const pid_t killed = fork();
    ASSERT_GE(killed, 0);
    if (killed == 0) {
        int tries = 0;
        static_cast<void>(open_lent(found, O_RDONLY, [&] {
            if (tries++ > 0) {
                struct stat now = {};
                if (fstat(found.fd.get(), &now) != 0 || (now.st_mode & 07777) != 0440)
                    _exit(1);
                kill(getpid(), SIGKILL);
            }
            return Result<Fd>(Error(EACCES, path_));
        }));
        _exit(2);
    }
    int status = 0;
    ASSERT_EQ(killed, waitpid(killed, &status, 0));
    ASSERT_TRUE(WIFSIGNALED(status)) << status;
    using Clock = std::chrono::steady_clock;
    const Clock::time_point end = Clock::now() + std::chrono::seconds(30);
    while (mode() != 0040 && Clock::now() < end)
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
    EXPECT_EQ(0040U, mode());
}

TEST_F(LentMode, LeavesNoProcessBehind)
{
    set(0040);
    const Found found = find();
    EXPECT_TRUE(open_lent(found, O_RDONLY, [&] { return open(found); }));
    EXPECT_EQ(-1, waitpid(-1, nullptr, WNOHANG | __WALL));
    EXPECT_EQ(ECHILD, errno);
}

} // namespace cryo
