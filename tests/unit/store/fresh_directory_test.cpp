// SPDX-License-Identifier: Apache-2.0
// A directory that has got its name has all that is in it after a power failure, too: the names in
// each directory are on the disk before.
#include "../scratch.hpp"
#include "store/fresh_directory.hpp"

#include <gtest/gtest.h>
#include <mutex>
#include <set>
#include <sys/stat.h>
#include <sys/syscall.h>
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

bool is_synced(const std::string &path)
{
    struct stat status = {};
    EXPECT_EQ(0, stat(path.c_str(), &status)) << path;
    const std::lock_guard lock(mutex);
    return synced.contains(status.st_ino);
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
}

} // namespace cryo::store
