// SPDX-License-Identifier: Apache-2.0
#include "capture/memory/method.hpp"

#include <gtest/gtest.h>

using namespace cryo::capture;

namespace {

constexpr uint64_t page = 4096;
constexpr uint64_t pages_512_mib = 131072;

std::vector<Run> scattered(uint64_t pages)
{
    std::vector<Run> runs;
    for (uint64_t i = 0; i < pages; i++)
        runs.push_back({i * 100 * page, (i * 100 + 1) * page});
    return runs;
}

// With room for all changed pages.
Costs with_changes(uint64_t pages, uint64_t huge, uint64_t changed)
{
    return estimate(
        {.pages = pages, .huge = huge, .changed = scattered(changed), .room = changed * page});
}

} // namespace

TEST(Method, FewChangedPagesOfManyAreCopied)
{
    EXPECT_EQ(with_changes(pages_512_mib, 0, 131).best(), Method::staged);
    EXPECT_EQ(with_changes(pages_512_mib, 0, 1311).best(), Method::staged);
    EXPECT_EQ(with_changes(pages_512_mib, 0, 13107).best(), Method::fork);
}

TEST(Method, PagesInARowCostLess)
{
    const Costs row =
        estimate({.pages = 1000, .changed = {{{0, 1000 * page}}}, .room = 1000 * page});
    EXPECT_LT(row.staged, with_changes(1000, 0, 1000).staged);
}

TEST(Method, HugePagesAreForkedSooner)
{
    const Costs small = with_changes(pages_512_mib, 0, 1311);
    const Costs some = with_changes(pages_512_mib, pages_512_mib / 2, 1311);
    const Costs huge = with_changes(pages_512_mib, pages_512_mib, 1311);
    EXPECT_LT(huge.fork, some.fork);
    EXPECT_LT(some.fork, small.fork);
    EXPECT_EQ(huge.best(), Method::fork);
    EXPECT_EQ(with_changes(pages_512_mib, pages_512_mib, 131).best(), Method::staged);
    // By the time of the copy fewer huge pages may be left than smaps has reported.
    EXPECT_GT(estimate({.pages = 10, .huge = 512}).fork, 0U);
}

TEST(Method, WithoutRoomItIsForkedOrReadWhereLittleHasChanged)
{
    const auto without_room = [](uint64_t pages, uint64_t huge, uint64_t changed) {
        return estimate(
            {.pages = pages, .huge = huge, .changed = scattered(changed), .room = page});
    };
    EXPECT_EQ(without_room(pages_512_mib, 0, 2).staged, Costs::cannot);
    EXPECT_EQ(without_room(pages_512_mib, 0, 2).best(), Method::stop);
    EXPECT_EQ(without_room(pages_512_mib, 0, 131).best(), Method::fork);
    EXPECT_EQ(without_room(pages_512_mib, pages_512_mib, 2).best(), Method::fork);
    EXPECT_EQ(without_room(1000, 0, 2).best(), Method::fork);
    EXPECT_EQ(estimate({.pages = pages_512_mib}).best(), Method::fork);
    EXPECT_EQ(estimate({.pages = 500}).best(), Method::fork);
}

TEST(Method, WhatCannotBeDoneIsNotChosen)
{
    EXPECT_EQ((Costs{.fork = Costs::cannot, .staged = Costs::cannot, .stop = 9}.best()),
              Method::stop);
    EXPECT_EQ((Costs{.fork = 5, .staged = 6, .stop = 4}.best()), Method::stop);
    EXPECT_EQ((Costs{.fork = 5, .staged = 5, .stop = 5}.best()), Method::staged);
    EXPECT_EQ((Costs{.fork = 5, .staged = Costs::cannot, .stop = 5}.best()), Method::fork);
}

TEST(Method, ASlowDestinationCountsBeyondWhatTheWriterHolds)
{
    const auto reading = [](uint64_t pages, uint64_t rate) {
        return estimate({.pages = pages, .writes_per_s = rate}).stop;
    };
    constexpr uint64_t slow = 20 << 20;
    EXPECT_GT(reading(pages_512_mib, slow), 20'000'000'000U);
    EXPECT_LT(reading(pages_512_mib, 0), 1'000'000'000U);
    EXPECT_EQ(reading(1000, slow), reading(1000, 0));
}
