// SPDX-License-Identifier: Apache-2.0
//
// How long images may take.
#include "coord/patience.hpp"

#include <gtest/gtest.h>

namespace cryo::coord {

namespace {

using std::chrono::hours;
using std::chrono::seconds;

constexpr uint64_t mebibyte = 1 << 20;

TEST(Patience, IsLongerForLargeImages)
{
    EXPECT_EQ(time_to_write(1000, 0), seconds(0));
    EXPECT_EQ(time_to_write(64 * 1024 * mebibyte, 0), seconds(64 * 1024));
}

TEST(Patience, IsLongerForCopiesWithALimit)
{
    EXPECT_EQ(time_to_write(1024 * mebibyte, mebibyte / 8), seconds(8 * 1024));
    EXPECT_EQ(time_to_write(1024 * mebibyte, 100 * mebibyte),
              seconds(1024)); // the disk's may be less
}

TEST(Patience, EndsWhateverANodeSays)
{
    EXPECT_EQ(time_to_write(~uint64_t(0), 0), hours(24));
    EXPECT_EQ(time_to_write(~uint64_t(0), 1), hours(24));
}

} // namespace

} // namespace cryo::coord
