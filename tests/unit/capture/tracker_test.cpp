// SPDX-License-Identifier: Apache-2.0
#include "capture/tracker.hpp"

#include <gtest/gtest.h>

namespace cryo::capture {

namespace {

std::vector<std::pair<uint64_t, uint64_t>> pairs(const std::vector<Run> &runs)
{
    std::vector<std::pair<uint64_t, uint64_t>> all;
    all.reserve(runs.size());
    for (const Run &run : runs)
        all.emplace_back(run.start, run.end);
    return all;
}

using Pairs = std::vector<std::pair<uint64_t, uint64_t>>;

} // namespace

TEST(Runs, Without)
{
    EXPECT_EQ(pairs(without({{0, 10}, {20, 30}}, {})), (Pairs{{0, 10}, {20, 30}}));
    EXPECT_EQ(pairs(without({{0, 10}, {20, 30}}, {{0, 10}})), (Pairs{{20, 30}}));
    EXPECT_EQ(pairs(without({{0, 10}}, {{2, 3}, {5, 6}})), (Pairs{{0, 2}, {3, 5}, {6, 10}}));
    EXPECT_EQ(pairs(without({{0, 10}, {20, 30}}, {{5, 25}})), (Pairs{{0, 5}, {25, 30}}));
    EXPECT_EQ(pairs(without({{5, 6}, {7, 8}}, {{0, 100}})), Pairs());
    EXPECT_EQ(pairs(without({{0, 10}}, {{0, 4}, {0, 4}, {4, 5}})), (Pairs{{5, 10}}));
}

TEST(Runs, CommonPart)
{
    EXPECT_EQ(pairs(common_part({{0, 10}, {20, 30}}, {{5, 25}})), (Pairs{{5, 10}, {20, 25}}));
    EXPECT_EQ(pairs(common_part({{0, 10}}, {})), Pairs());
    EXPECT_EQ(pairs(common_part({{0, 10}}, {{0, 10}})), (Pairs{{0, 10}}));
}

TEST(Tracker, FindsWhatIsWatched)
{
    const char *smaps = "1000-3000 rw-p 00000000 00:00 0    [heap]\n"
                        "Rss: 4 kB\n"
                        "VmFlags: rd wr mr mw me ac uw\n"
                        "3000-4000 rw-p 00000000 00:00 0 \n"
                        "VmFlags: rd wr mr mw me ac\n"
                        "7f0000000000-7f0000002000 rw-p 00001000 08:01 5    /a file: uw - x\n"
                        "VmFlags: rd uw ac\n";
    EXPECT_EQ(pairs(watched_mappings(smaps)),
              (Pairs{{0x1000, 0x3000}, {0x7f0000000000, 0x7f0000002000}}));
    EXPECT_TRUE(watched_mappings("").empty());
}

} // namespace cryo::capture
