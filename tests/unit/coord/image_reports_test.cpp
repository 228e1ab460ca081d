// SPDX-License-Identifier: Apache-2.0
//
// What is counted of a checkpoint's images.
#include "coord/image_reports.hpp"

#include "coord/daemon.hpp"

#include <gtest/gtest.h>

namespace cryo::coord {
namespace {

class Reports : public testing::Test
{
  protected:
    Loop loop;
    Daemon local{loop, Job(), "n0", [](const Message &) {}};
    Members members{local};
    const uint32_t other =
        members
            .add(nullptr, "n1",
                 Message(Type::join, {{"addresses", nlohmann::json::array()}, {"port", 1}}))
            .number;
    ImageReports reports{std::make_shared<const ImageReports::Ranks>(
                             ImageReports::Ranks{{0, {0, 400}}, {1, {0, 401}}, {5, {other, 405}}}),
                         members};
};

TEST_F(Reports, EachRankCountsOnce)
{
    EXPECT_FALSE(reports.is_of(0, 5));
    EXPECT_TRUE(reports.is_of(other, 5));
    EXPECT_FALSE(reports.has_rank(4));
    EXPECT_FALSE(reports.has_rank(6));
    reports.cut(5);
    reports.cut(5);
    reports.cut(4); // none of the job's
    EXPECT_EQ(reports.message().fields, (nlohmann::json{{"done", 0}, {"cut", 1}, {"of", 3}}));
    EXPECT_TRUE(reports.is_frozen(5));
    reports.grow(5, 10);
    EXPECT_EQ(reports.growth().at(5).bytes, 10U);
    reports.add(5, {.bytes = 20}, 7);
    reports.add(5, {.bytes = 30}, 0);
    reports.grow(5, 40); // too late
    EXPECT_TRUE(reports.growth().empty());
    EXPECT_EQ(reports.bytes(), 20U);
    EXPECT_EQ(reports.longest_stop(), 7U);
    EXPECT_FALSE(reports.misses_one_of(other));
    EXPECT_TRUE(reports.misses_one_of(0));
    for (const uint32_t rank : {0U, 1U}) {
        EXPECT_FALSE(reports.complete());
        reports.add(rank, {}, 0);
    }
    EXPECT_TRUE(reports.complete());
    EXPECT_FALSE(reports.all_are_cut());
    EXPECT_FALSE(reports.misses_one_of(0));
}

// Standstill takes a number that does not change for a job in which nothing happens.
TEST_F(Reports, EveryStepIsSeen)
{
    size_t before = reports.steps();
    const auto has_stepped = [&] {
        const size_t last = std::exchange(before, reports.steps());
        return last < before;
    };
    for (const uint32_t rank : {0U, 1U, 5U}) {
        reports.grow(rank, 1);
        EXPECT_TRUE(has_stepped());
        reports.grow(rank, 2);
        EXPECT_FALSE(has_stepped());
        reports.cut(rank);
        EXPECT_TRUE(has_stepped());
        reports.add(rank, {}, 0);
        EXPECT_TRUE(has_stepped());
    }
}

TEST_F(Reports, ImagesHaveTheNamesOfTheirNodes)
{
    reports.add(5, {.bytes = 20, .checksum = "aa", .needs = {2, 1}, .is_described = true}, 0);
    reports.add(0, {.bytes = 1, .needs = {1}}, 0);
    EXPECT_EQ(reports.needs(), (std::set<int>{1, 2}));
    reports.keep_name(other,
                      *members.remove(other)); // its ranks have ended, and their images are there
    const std::vector<SnapshotImage> images = reports.images();
    ASSERT_EQ(images.size(), 2U);
    EXPECT_EQ(images[0].rank, 0U);
    EXPECT_EQ(images[0].node, "n0");
    EXPECT_EQ(images[0].needs, std::vector<int>{1});
    EXPECT_FALSE(images[0].is_described);
    EXPECT_EQ(images[1].node, "n1");
    EXPECT_EQ(images[1].file, "cryo_context.405");
    EXPECT_EQ(images[1].pid, 405);
    EXPECT_EQ(images[1].bytes, 20U);
    EXPECT_EQ(images[1].checksum, "aa");
    EXPECT_EQ(images[1].needs, (std::vector<int>{2, 1}));
    EXPECT_TRUE(images[1].is_described);
}

} // namespace
} // namespace cryo::coord
