// SPDX-License-Identifier: Apache-2.0
#include "capture/stage.hpp"

#include <gtest/gtest.h>

using namespace cryo::capture;

namespace {

constexpr uint64_t page = 4096;

} // namespace

TEST(Stage, NothingIsThereThatWasNotTaken)
{
    std::optional<Stage> stage = Stage::make(16 * page);
    ASSERT_TRUE(stage);
    EXPECT_EQ(stage->room(), 16 * page);
    std::vector<char> bytes(page);
    const auto got = stage->read(page, bytes);
    ASSERT_FALSE(got);
    EXPECT_EQ(got.error().code(), EFAULT);
}

TEST(Runs, InsideTwoAddresses)
{
    const std::vector<cryo::capture::Run> runs = {{1, 2}, {4, 6}, {6, 9}, {12, 13}};
    const auto starts = [&](uint64_t start, uint64_t end) {
        std::vector<uint64_t> found;
        for (const auto &run : inside(runs, start, end))
            found.push_back(run.start);
        return found;
    };
    EXPECT_EQ(starts(0, 20), (std::vector<uint64_t>{1, 4, 6, 12}));
    EXPECT_EQ(starts(4, 9), (std::vector<uint64_t>{4, 6}));
    EXPECT_EQ(starts(2, 4), std::vector<uint64_t>{});
    EXPECT_EQ(size_of(runs), 7U);
    EXPECT_EQ(size_of({}), 0U);
}
