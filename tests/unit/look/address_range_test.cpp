// SPDX-License-Identifier: Apache-2.0
#include "look/address_range.hpp"

#include <gtest/gtest.h>

namespace cryo::capture {
namespace {

TEST(AddressRange, IsTakenFromTheBeginningOfALine)
{
    std::string_view line = "7f00aa000000-ffffffffff601000 r-xp 00000000 08:01 12   /a-b";
    const auto range = take_range(line);
    ASSERT_TRUE(range);
    EXPECT_EQ(0x7f00aa000000U, range->start);
    EXPECT_EQ(0xffffffffff601000U, range->end);
    EXPECT_EQ("r-xp 00000000 08:01 12   /a-b", line);
}

TEST(AddressRange, IsNotInOtherLines)
{
    for (std::string_view line : {"", "Size:                  4 kB", "AnonHugePages:         0 kB",
                                  "FilePmdMapped:         0 kB", "VmFlags: rd wr-mr", "7f00"})
        EXPECT_FALSE(take_range(line)) << line;
}

} // namespace
} // namespace cryo::capture
