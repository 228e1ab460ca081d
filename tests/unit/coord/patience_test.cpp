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

// Some write --time 1000000000 for ever: as nanoseconds, which clocks have, that must fit in 64
// bits.
TEST(Patience, IsLongWhereMuchIsAskedFor)
{
    const auto years = hours(24 * 365 * 50);
    const auto most = std::chrono::floor<hours>(std::chrono::nanoseconds::max()) - years;
    for (const int64_t asked : {500'000'000, 1'000'000'000, 1 << 30}) {
        EXPECT_GT(longest_image(asked), years);
        EXPECT_LT(longest_image(asked), most);
        EXPECT_GT(longest_command(asked), years);
        EXPECT_LT(longest_command(asked), most);
    }
    EXPECT_EQ(longest_image(600), seconds(7200));
}

TEST(Patience, EndsWhateverANodeSays)
{
    EXPECT_EQ(time_to_write(~uint64_t(0), 0), hours(24));
    EXPECT_EQ(time_to_write(~uint64_t(0), 1), hours(24));
}

} // namespace

} // namespace cryo::coord
