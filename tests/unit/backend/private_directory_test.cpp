// SPDX-License-Identifier: Apache-2.0
#include "backend/private_directory.hpp"
#include "base/pipe.hpp"

#include "../scratch.hpp"

#include <csignal>
#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

namespace cryo::backend {

namespace {

namespace fs = std::filesystem;

class PrivateDirectoryTest : public testing::Test
{
  protected:
    PrivateDirectory make() const
    {
        Result<PrivateDirectory> made = PrivateDirectory::make(top_, "test");
        EXPECT_TRUE(made);
        fs::create_directories(made->path() + "/deep/deeper");
        std::ofstream(made->path() + "/deep/file") << "contents";
        return std::move(*made);
    }
    bool is_empty() const { return fs::is_empty(top_); }

    const Scratch scratch_;
    const fs::path top_ = scratch_.path();
};

TEST_F(PrivateDirectoryTest, IsForItsUserAloneAndGoesWithWhatIsInIt)
{
    {
        const PrivateDirectory own = make();
        struct stat status = {};
        ASSERT_EQ(stat(own.path().c_str(), &status), 0);
        EXPECT_EQ(status.st_mode & 0777U, 0700U);
        EXPECT_EQ(fs::path(own.path()).parent_path(), top_);
    }
    EXPECT_TRUE(is_empty());
}

// Descendants that outlive the child become children of this process, so that it can wait for them.
pid_t started_by_a_child(const std::function<void()> &what)
{
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    const pid_t child = fork();
    if (child == 0) {
        what();
        _exit(0);
    }
    return child;
}

void await_all()
{
    while (waitpid(-1, nullptr, 0) > 0)
        ;
}

TEST_F(PrivateDirectoryTest, GoesWhenItsUserIsKilled)
{
    const pid_t child = started_by_a_child([&] {
        const PrivateDirectory own = make();
        kill(getpid(), SIGKILL);
    });
    ASSERT_GT(child, 0);
    await_all();
    EXPECT_TRUE(is_empty());
}

// A command still works in the directory, and may be stopped indefinitely.
TEST_F(PrivateDirectoryTest, StaysWhileSomebodyElseUsesItAndKeepsNobodyWaiting)
{
    Result<PipeEnds> leave = make_pipe();
    ASSERT_TRUE(leave);
    const pid_t child = started_by_a_child([&] {
        pid_t user = 0;
        {
            const PrivateDirectory own = make();
            user = fork();
            if (user == 0) {
                leave->write.reset();
                char byte;
                [[maybe_unused]] const ssize_t n = read(leave->read.get(), &byte, 1);
                _exit(0);
            }
        }
        _exit(user > 0 && !is_empty() ? 0 : 1);
    });
    ASSERT_GT(child, 0);
    int status = -1;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
    leave->write.reset();
    await_all();
    EXPECT_TRUE(is_empty());
}

// An attacker may write to the parent directory.
TEST_F(PrivateDirectoryTest, WhatSomebodyHasPutInItsPlaceStays)
{
    const fs::path moved = top_ / "moved";
    fs::path place;
    {
        const PrivateDirectory own = make();
        place = own.path();
        fs::rename(place, moved);
        fs::create_directory(place);
        std::ofstream(place / "theirs") << "contents";
    }
    EXPECT_TRUE(fs::exists(place / "theirs"));
    EXPECT_TRUE(fs::is_empty(moved));
}

} // namespace

} // namespace cryo::backend
