// SPDX-License-Identifier: Apache-2.0
// A directory that has got its name has all that is in it after a power failure, too: the names in
// each directory are on the disk before.
#include "../scratch.hpp"
#include "store/fresh_directory.hpp"

#include <csignal>
#include <filesystem>
#include <gtest/gtest.h>
#include <iterator>
#include <mutex>
#include <set>
#include <string>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

namespace {

std::mutex mutex;
std::set<ino_t> synced;

} // namespace

// In place of the C library's.
extern "C" int fsync(int fd)
{
    struct stat status = {};
    if (fstat(fd, &status) == 0) {
        const std::lock_guard lock(mutex);
        synced.insert(status.st_ino);
    }
    return static_cast<int>(syscall(SYS_fsync, fd));
}

namespace cryo::store {

namespace {

namespace fs = std::filesystem;

bool is_synced(const std::string &path)
{
    struct stat status = {};
    EXPECT_EQ(0, stat(path.c_str(), &status)) << path;
    const std::lock_guard lock(mutex);
    return synced.contains(status.st_ino);
}

std::set<std::string> names_in(const Scratch &scratch)
{
    std::set<std::string> names;
    for (const auto &entry : fs::directory_iterator(scratch.path()))
        names.insert(entry.path().filename());
    return names;
}

} // namespace

TEST(FreshDirectory, IsOnTheDiskBeforeItHasItsName)
{
    const Scratch scratch;
    Manifest manifest;
    for (const char *name : {"job", "1/rank/image"})
        manifest.files.push_back({.name = name, .bytes = 0, .checksum = {}});
    Result<FreshDirectory> fresh = FreshDirectory::make(scratch / "made", manifest);
    ASSERT_TRUE(fresh) << fresh.error().text();
    for (const StoredFile &file : manifest.files)
        ASSERT_TRUE(fresh->create(file));
    EXPECT_NE(0, access((scratch / "made").c_str(), F_OK));
    ASSERT_TRUE(fresh->take_name());
    for (const char *name : {"made", "made/1", "made/1/rank"})
        EXPECT_TRUE(is_synced(scratch / name)) << name;
    EXPECT_TRUE(is_synced(scratch.path().string()));
    EXPECT_EQ(2, std::distance(fs::directory_iterator(scratch / "made"), fs::directory_iterator()))
        << "nothing but what was brought into it";
}

TEST(FreshDirectory, WhatAProcessHasLeftThatWasKilledGoes)
{
    const Scratch scratch;
    Manifest manifest;
    manifest.files.push_back({.name = "1/rank/image", .bytes = 0, .checksum = {}});
    fs::create_directory(scratch / "made.pulled-backup"); // of a user
    const pid_t killed = fork();
    ASSERT_GE(killed, 0);
    if (killed == 0) {
        const Result<FreshDirectory> left = FreshDirectory::make(scratch / "made", manifest);
        if (left && left->create(manifest.files[0]))
            kill(getpid(), SIGKILL);
        _exit(1);
    }
    // Until it is waited for, the number is its own.
    siginfo_t end = {};
    ASSERT_EQ(0, waitid(P_PID, static_cast<id_t>(killed), &end, WEXITED | WNOWAIT));
    ASSERT_EQ(CLD_KILLED, end.si_code);
    const std::set<std::string> before = names_in(scratch);
    ASSERT_EQ(2U, before.size());
    {
        const Result<FreshDirectory> one = FreshDirectory::make(scratch / "made", manifest);
        ASSERT_TRUE(one) << one.error().text();
        const std::set<std::string> now = names_in(scratch);
        EXPECT_EQ(2U, now.size());
        EXPECT_NE(before, now);
        EXPECT_TRUE(now.contains("made.pulled-backup"));
        const Result<FreshDirectory> other = FreshDirectory::make(scratch / "made", manifest);
        ASSERT_TRUE(other) << other.error().text();
        EXPECT_EQ(3U, names_in(scratch).size()) << "that of a living process stays";
    }
    EXPECT_EQ(1U, names_in(scratch).size());
    EXPECT_EQ(killed, waitpid(killed, nullptr, 0));
}

} // namespace cryo::store
