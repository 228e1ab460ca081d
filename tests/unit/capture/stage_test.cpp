// SPDX-License-Identifier: Apache-2.0
#include "capture/memory/stage.hpp"

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

TEST(Stage, OfWhatWasPutOnlyWhatIsKeptIsThere)
{
    std::optional<Stage> stage = Stage::make(64 * page);
    ASSERT_TRUE(stage);
    const auto put = [&](const std::vector<cryo::capture::Run> &runs) {
        const Stage::Space space = stage->space(size_of(runs));
        if (space.bytes.size() != size_of(runs))
            return false;
        size_t at = 0;
        for (const auto &run : runs) {
            for (uint64_t address = run.start; address < run.end; address += page, at += page) {
                space.bytes[at] = static_cast<char>(address / page);
                space.digests[at / page].low = address;
            }
        }
        stage->put(runs, space);
        return true;
    };
    EXPECT_TRUE(put({}));
    EXPECT_TRUE(put({{2 * page, 30 * page}}));
    EXPECT_TRUE(put({{40 * page, 41 * page}, {41 * page, 60 * page}}));
    EXPECT_FALSE(put({{70 * page, 100 * page}})); // no room
    EXPECT_EQ(stage->used(), 48 * page);
    EXPECT_TRUE(stage->provide(1000 * page)); // no more than there is room for
    EXPECT_EQ(stage->room(), 16 * page);
    stage->keep({{1 * page, 4 * page}, {6 * page, 7 * page}, {29 * page, 45 * page}});
    std::vector<uint64_t> there;
    std::vector<char> bytes(page);
    for (uint64_t number = 0; number < 100; number++) {
        if (!stage->read(number * page, bytes))
            continue;
        EXPECT_EQ(bytes[0], static_cast<char>(number));
        there.push_back(number);
    }
    EXPECT_EQ(there, (std::vector<uint64_t>{2, 3, 6, 29, 40, 41, 42, 43, 44}));
    // A view needs pages stored in a row, with their digests; separate runs do not form one.
    const auto last_of = [&](uint64_t number, uint64_t pages) -> std::pair<char, uint64_t> {
        const auto view = stage->view(number * page, pages * page);
        if (view.bytes.size() != pages * page || view.digests.size() != pages)
            return {};
        return {static_cast<char>(view.bytes[(pages - 1) * page]), view.digests[pages - 1].low};
    };
    using Last = std::pair<char, uint64_t>;
    EXPECT_EQ(last_of(2, 2), Last(3, 3 * page));
    EXPECT_EQ(last_of(6, 1), Last(6, 6 * page));
    EXPECT_EQ(last_of(41, 4), Last(44, 44 * page));
    EXPECT_EQ(last_of(40, 2), Last()); // two runs
    EXPECT_EQ(last_of(2, 3), Last());  // page 4 was not kept
    EXPECT_EQ(last_of(5, 1), Last());
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
