// SPDX-License-Identifier: Apache-2.0
//
// The rule that chooses bases, tested by its arithmetic alone.
#include <gtest/gtest.h>

#include "delta/adaptive.hpp"

namespace cryo::delta {
namespace {

using image::DeltaMode;

constexpr uint32_t kBlock = 4096;

// Large counts, so that the fixed cost of each image does not blur the ratio.
Situation situation(uint64_t to_base, uint64_t to_previous)
{
    return {.blocks = 1'000'000,
            .block_size = kBlock,
            .changed_to_base = to_base,
            .changed_to_previous = to_previous,
            .images_of_base = 1,
            .images_of_previous = 2,
            .previous_is_base = false};
}

TEST(Adaptive, RebasesAboveTheThreshold)
{
    Policy policy{.threshold = 1500};
    EXPECT_EQ(choose(policy, situation(100'000, 100'000)), Choice::base);
    EXPECT_EQ(choose(policy, situation(149'000, 100'000)), Choice::base);
    EXPECT_EQ(choose(policy, situation(151'000, 100'000)), Choice::previous);
    policy.threshold = 3000;
    EXPECT_EQ(choose(policy, situation(151'000, 100'000)), Choice::base);
}

TEST(Adaptive, IsExactAtTheThreshold)
{
    Policy policy{.threshold = 1000};
    EXPECT_EQ(choose(policy, situation(5, 5)), Choice::base);
    EXPECT_EQ(choose(policy, situation(6, 5)), Choice::previous);
    EXPECT_EQ(choose(policy, situation(uint64_t(1) << 50, 1)), Choice::previous);
}

TEST(Adaptive, AVersionThatDidNotChangeIsNoReasonToRebase)
{
    EXPECT_EQ(choose({}, situation(1, 0)), Choice::base);
    EXPECT_EQ(choose({}, situation(0, 0)), Choice::base);
}

TEST(Adaptive, ModesAreItsExtremes)
{
    EXPECT_EQ(choose({.mode = DeltaMode::incremental}, situation(5, 5)), Choice::previous);
    EXPECT_EQ(choose({.mode = DeltaMode::differential}, situation(900'000, 1)), Choice::base);
    Situation second = situation(900'000, 900'000);
    second.previous_is_base = true;
    EXPECT_EQ(choose({.mode = DeltaMode::incremental}, second), Choice::base);
}

TEST(Adaptive, CompleteWhereADeltaSavesNothing)
{
    Situation first = situation(0, 0);
    first.images_of_base = 0;
    EXPECT_EQ(choose({}, first), Choice::complete);
    EXPECT_EQ(choose({}, situation(1'000'000, 1'000'000)), Choice::complete);
    EXPECT_EQ(choose({}, situation(999'999, 999'999)), Choice::base);
}

TEST(Adaptive, NeverMoreImagesThanAllowed)
{
    Situation s = situation(5000, 5);
    s.images_of_base = 2;
    s.images_of_previous = 3;
    EXPECT_EQ(choose({.most_images = 4}, s), Choice::previous);
    EXPECT_EQ(choose({.most_images = 3}, s), Choice::complete);
    EXPECT_EQ(choose({.mode = DeltaMode::differential, .most_images = 3}, s), Choice::base);
}

} // namespace
} // namespace cryo::delta
