// SPDX-License-Identifier: Apache-2.0
#include "base/fd.hpp"
#include "base/sync.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>

namespace {

using namespace cryo;

// A pipe refuses fsync(2) as a directory does on a file system that has none for directories.
TEST(Sync, ADirectoryThatCannotBeSyncedIsNoFailure)
{
    int ends[2];
    ASSERT_EQ(pipe2(ends, O_CLOEXEC), 0);
    const Fd first(ends[0]);
    const Fd second(ends[1]);
    EXPECT_EQ(EINVAL, sync_file(ends[1]));
    EXPECT_EQ(0, sync_directory(ends[1]));
    EXPECT_EQ(EBADF, sync_directory(-1));
}

} // namespace
