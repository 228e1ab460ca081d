// SPDX-License-Identifier: Apache-2.0
#include "capture/holes.hpp"

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

} // namespace cryo::capture
