// SPDX-License-Identifier: Apache-2.0
#include "capture/stage.hpp"

#include <gtest/gtest.h>

using namespace cryo::capture;

namespace {

constexpr uint64_t page = 4096;

std::vector<Run> scattered(uint64_t pages)
{
    std::vector<Run> runs;
    for (uint64_t i = 0; i < pages; i++)
        runs.push_back({i * 100 * page, (i * 100 + 1) * page});
    return runs;
}

} // namespace

TEST(Stage, FewPagesOfManyAreCopied)
{
    const Held large = {.pages = 131072, .huge = 0};
    EXPECT_LT(time_to_stage(scattered(131)), time_to_fork(large));
    EXPECT_LT(time_to_stage(scattered(1311)), time_to_fork(large));
    EXPECT_GT(time_to_stage(scattered(13107)), time_to_fork(large));
    // Pages in a row need the kernel's way to them once.
    EXPECT_LT(time_to_stage({{0, 1000 * page}}), time_to_stage(scattered(1000)));
}

TEST(Stage, HugePagesAreForkedSooner)
{
    const Held small = {.pages = 131072, .huge = 0};
    const Held huge = {.pages = 131072, .huge = 131072};
    const Held some = {.pages = 131072, .huge = 65536};
    EXPECT_LT(time_to_fork(huge), time_to_fork(some));
    EXPECT_LT(time_to_fork(some), time_to_fork(small));
    // What smaps says of huge pages may be more than what is there by then.
    EXPECT_GT(time_to_fork({.pages = 10, .huge = 512}), 0U);
}

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
