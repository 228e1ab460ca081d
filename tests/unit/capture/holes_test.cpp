// SPDX-License-Identifier: Apache-2.0
#include "capture/process/holes.hpp"

#include <gtest/gtest.h>

namespace cryo::capture {

namespace {

const std::string headings = "Filename\t\t\t\tType\t\tSize\t\tUsed\t\tPriority\n";

} // namespace

TEST(Holes, SwapIsUnusedWhereThereIsNone)
{
    EXPECT_TRUE(is_swap_unused(headings));
}

TEST(Holes, EveryAreaOfSwapCounts)
{
    const std::string unused =
        "/dev/sda2                               partition\t8388604\t\t0\t\t-2\n";
    const std::string used = "/swapfile                               file\t\t1048572\t\t4\t\t-3\n";
    EXPECT_TRUE(is_swap_unused(headings + unused));
    EXPECT_FALSE(is_swap_unused(headings + used));
    EXPECT_FALSE(is_swap_unused(headings + unused + used));
    EXPECT_FALSE(is_swap_unused(headings + used + unused));
}

TEST(Holes, WhatCannotBeUnderstoodIsNotUnused)
{
    EXPECT_FALSE(is_swap_unused(headings + "/swapfile file\n"));
    EXPECT_FALSE(is_swap_unused(headings + "/swapfile\tfile\t0"));
}

TEST(Mappings, UntouchedOnes)
{
    const char *smaps = "1000-3000 ---p 00000000 00:00 0\n"
                        "Size:                  8 kB\nRss:                   0 kB\n"
                        "Private_Hugetlb:       0 kB\nSwap:                  0 kB\n"
                        "VmFlags: mr mw me ac sd\n"
                        "3000-5000 rw-p 00000000 00:00 0\nRss:                   4 kB\n"
                        "Swap:                  0 kB\n"
                        "5000-7000 rw-p 00000000 00:00 0\nRss:                   0 kB\n"
                        "Swap:                  8 kB\n"
                        "a00000-c00000 rw-p 00000000 00:00 0\nRss:                   0 kB\n"
                        "Private_Hugetlb:    2048 kB\nSwap:                  0 kB\n"
                        "d000-f000 r--p 00000000 08:01 5    /a\nRss:                   0 kB\n"
                        "Swap:                  0 kB\n";
    const auto found = untouched_mappings(smaps);
    ASSERT_EQ(found.size(), 2U);
    EXPECT_EQ(found[0].start, 0x1000U);
    EXPECT_EQ(found[0].end, 0x3000U);
    EXPECT_EQ(found[1].start, 0xd000U);
    EXPECT_TRUE(untouched_mappings("").empty());
}

} // namespace cryo::capture
