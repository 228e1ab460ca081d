// SPDX-License-Identifier: Apache-2.0
#include "base/directory.hpp"
#include "base/trust.hpp"

#include "../scratch.hpp"

#include <cerrno>
#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/wait.h>
#include <unistd.h>

namespace cryo {

namespace {

namespace fs = std::filesystem;

class DirectoryTest : public testing::Test
{
  protected:
    Directory open() const
    {
        Result<Directory> directory = Directory::open(top_);
        EXPECT_TRUE(directory);
        return std::move(*directory);
    }

    const Scratch scratch_;
    const fs::path top_ = scratch_.path();
};

TEST_F(DirectoryTest, WhatIsWrittenIsRead)
{
    const Directory directory = open();
    EXPECT_EQ(directory.read("file").error().code(), ENOENT);
    ASSERT_TRUE(directory.write("file", std::string(100'000, 'x')));
    ASSERT_TRUE(directory.write("file", "second"));
    EXPECT_EQ(*directory.read("file"), "second");
    EXPECT_EQ(directory.read("file", 3).error().code(), EFBIG);
    EXPECT_EQ(directory.names()->size(), 1U);
}

TEST_F(DirectoryTest, NothingButAFileIsRead)
{
    const Directory directory = open();
    fs::create_directory(top_ / "directory");
    fs::create_symlink("file", top_ / "link");
    ASSERT_EQ(mkfifo((top_ / "pipe").c_str(), 0600), 0);
    for (const char *name : {"directory", "link", "pipe"}) {
        const Result<std::string> read = directory.read(name);
        ASSERT_FALSE(read) << name;
        EXPECT_NE(read.error().code(), ENOENT) << name;
    }
}

TEST_F(DirectoryTest, WhatOneWhoDiedLeftIsUsedAgainAndWhatIsNotIsNot)
{
    const Directory directory = open();
    ASSERT_TRUE(directory.write(".file.tmp", "half"));
    ASSERT_TRUE(directory.write("file", "whole"));
    EXPECT_EQ(*directory.read("file"), "whole");
    fs::create_symlink("file", top_ / ".file.tmp");
    EXPECT_FALSE(directory.write("file", "other"));
    fs::remove(top_ / ".file.tmp");
    fs::create_hard_link(top_ / "file", top_ / ".file.tmp"); // writing would change the original
    EXPECT_FALSE(directory.write("file", "other"));
    EXPECT_EQ(*directory.read("file"), "whole");
}

TEST_F(DirectoryTest, LinksAreNotFollowed)
{
    fs::create_directory(top_ / "real");
    fs::create_directory_symlink("real", top_ / "link");
    for (const char *end : {"", "/", "//"}) {
        const Result<Directory> link = Directory::open(top_ / "link" += end);
        ASSERT_FALSE(link) << end;
        EXPECT_EQ(link.error().code(), ELOOP) << end;
    }
    EXPECT_EQ(open().enter("link").error().code(), ELOOP);
    EXPECT_TRUE(open().enter("real"));
    std::ofstream(top_ / "real" / "file") << "x";
    open().clear();
    EXPECT_TRUE(fs::is_empty(top_));
}

TEST_F(DirectoryTest, ClearingFollowsNoLink)
{
    fs::create_directories(top_ / "in" / "deeper");
    fs::create_directory(top_ / "out");
    std::ofstream(top_ / "out" / "file") << "x";
    fs::create_directory_symlink(top_ / "out", top_ / "in" / "deeper" / "link");
    open().enter("in")->clear();
    EXPECT_TRUE(fs::is_empty(top_ / "in"));
    EXPECT_TRUE(fs::exists(top_ / "out" / "file"));
}

TEST_F(DirectoryTest, RenamingReplacesNothing)
{
    const Directory directory = open();
    fs::create_directory(top_ / "a");
    fs::create_directory(top_ / "b"); // rename(2) would replace an empty directory
    EXPECT_EQ(directory.rename("a", "b").error().code(), EEXIST);
    EXPECT_TRUE(directory.rename("a", "c"));
}

TEST_F(DirectoryTest, PathsAreSplit)
{
    using Pair = std::pair<std::string, std::string>;
    EXPECT_EQ(split_path("a"), Pair(".", "a"));
    EXPECT_EQ(split_path("a/b/"), Pair("a", "b"));
    EXPECT_EQ(split_path("/a"), Pair("/", "a"));
    EXPECT_EQ(split_path("/"), Pair("/", ""));
}

TEST_F(DirectoryTest, TrustIsInOwnersAndModes)
{
    const fs::path path = top_ / "file";
    const Fd fd(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
    const Trust trust;
    EXPECT_TRUE(trust.check(fd.get(), path));
    EXPECT_TRUE(check_own(fd.get(), path, "no"));
    for (const mode_t mode : {0620U, 0602U, 0622U}) {
        ASSERT_EQ(fchmod(fd.get(), mode), 0);
        EXPECT_FALSE(Trust().check(fd.get(), path));
        EXPECT_FALSE(check_own(fd.get(), path, "no"));
    }
    Trust told;
    EXPECT_TRUE(told.add("root"));
    EXPECT_TRUE(told.add("4711"));
    EXPECT_FALSE(told.add("-1"));
    EXPECT_FALSE(told.add("no such user"));
}

// In a user namespace, the owners of other users' files are known only from outside.
TEST_F(DirectoryTest, TrustAsksForOwners)
{
    const Fd fd(::open("/", O_PATH | O_CLOEXEC));
    struct stat status = {};
    ASSERT_EQ(fstat(fd.get(), &status), 0);
    status.st_uid = geteuid() + 1;
    Trust trust;
    EXPECT_EQ(trust.owner_of(fd.get(), status), geteuid() + 1);
    int asked = -1;
    trust.ask([&](int about) -> std::optional<uid_t> {
        asked = about;
        return 4711;
    });
    EXPECT_EQ(trust.owner_of(fd.get(), status), 4711U);
    EXPECT_EQ(asked, fd.get());
    trust.ask([](int) { return std::optional<uid_t>(); });
    EXPECT_EQ(trust.owner_of(fd.get(), status), std::nullopt);
    // Files of the overflow uid are asked about as well, even if the caller has that uid.
    status.st_uid = geteuid();
    EXPECT_EQ(trust.owner_of(fd.get(), status), std::nullopt);
}

TEST_F(DirectoryTest, TheKernelSaysWhatUnknownOwnersAreCalled)
{
    const fs::path path = top_ / "overflowuid";
    const auto told_by = [&path](const char *text) {
        std::ofstream(path) << text;
        return sys::overflow_uid(path.c_str());
    };
    EXPECT_EQ(told_by("4711\n"), 4711U);
    EXPECT_EQ(told_by("65535\n"), 65535U);
    EXPECT_EQ(told_by("0\n"), 0U);
    EXPECT_EQ(told_by("nobody\n"), 65534U);
    EXPECT_EQ(told_by(""), 65534U);
    fs::remove(path);
    EXPECT_EQ(sys::overflow_uid(path.c_str()), 65534U);
}

// Where the kernel calls them 4711.
TEST_F(DirectoryTest, OwnersWithThatNumberAreUnknown)
{
    const fs::path path = top_ / "overflowuid";
    std::ofstream(path) << "4711\n";
    constexpr int no_namespace = 77;
    const pid_t child = fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
        if (unshare(CLONE_NEWUSER | CLONE_NEWNS) != 0 ||
            mount(path.c_str(), "/proc/sys/kernel/overflowuid", nullptr, MS_BIND, nullptr) != 0)
            _exit(no_namespace);
        _exit(is_unknown(4711) && is_unknown(unknown_owner) && !is_unknown(4712) ? 0 : 1);
    }
    int end = 0;
    ASSERT_EQ(waitpid(child, &end, 0), child);
    if (WIFEXITED(end) && WEXITSTATUS(end) == no_namespace)
        GTEST_SKIP() << "no user namespaces are to be had";
    EXPECT_EQ(end, 0);
}

} // namespace

} // namespace cryo
