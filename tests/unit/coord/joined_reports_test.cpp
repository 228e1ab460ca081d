// SPDX-License-Identifier: Apache-2.0
//
// Reports of a subtree in one message.
#include "coord/joined_reports.hpp"

#include "coord/loop.hpp"

#include <gtest/gtest.h>

namespace cryo::coord {
namespace {

using nlohmann::json;

Message image(uint32_t rank, uint64_t bytes)
{
    return Message(Type::image, {{"checkpoint", 1}, {"rank", rank}, {"bytes", bytes}});
}

class Joined : public testing::Test
{
  protected:
    Joined() { joined.place(7, 3, 6); }

    Loop loop;
    std::vector<json> sent;
    JoinedReports joined{loop, [this](const Message &message) {
                             // What is sent is what the table of messages has.
                             EXPECT_TRUE(unpack(Speaker::member, message.pack()));
                             sent.push_back(message.fields);
                             loop.stop();
                         }};
};

TEST_F(Joined, NumbersAreRuns)
{
    EXPECT_EQ(runs_of({}), std::vector<uint64_t>());
    EXPECT_EQ(runs_of({0, 1, 2, 5, 7, 8}), (std::vector<uint64_t>{0, 2, 5, 5, 7, 8}));
    std::set<uint32_t> seen;
    const auto see = [&](uint32_t one) { return seen.insert(one).second; };
    EXPECT_TRUE(each_of(json(runs_of({0, 1, 2, 5, 7, 8})), 6, see));
    EXPECT_EQ(seen, (std::set<uint32_t>{0, 1, 2, 5, 7, 8}));
    seen.clear();
    EXPECT_FALSE(each_of(json{0, 1, 2, 4000000000U}, 6, see)); // more than there are
    EXPECT_FALSE(each_of(json{4, 3}, 6, see));
    EXPECT_FALSE(each_of(json{4}, 6, see));
    EXPECT_FALSE(each_of(json{4, 5, 5, 5}, 6, see)); // the second 5 is refused
}

TEST_F(Joined, OneMessageGoesUpWhenAllHavePrepared)
{
    EXPECT_TRUE(joined.take(Message(Type::reports, {{"checkpoint", 1}, {"prepared", json{8, 9}}})));
    EXPECT_TRUE(sent.empty());
    EXPECT_TRUE(joined.add(Message(Type::prepared, {{"checkpoint", 1}})));
    ASSERT_EQ(sent.size(), 1U);
    EXPECT_EQ(sent[0].at("prepared"), (json{7, 9}));
}

TEST_F(Joined, OneMessageGoesUpWhenAllImagesAreThere)
{
    for (const uint32_t rank : {4U, 5U}) {
        EXPECT_TRUE(joined.add(Message(Type::cut, {{"checkpoint", 1}, {"rank", rank}})));
        EXPECT_TRUE(joined.add(image(rank, 10 * rank)));
    }
    EXPECT_TRUE(sent.empty());
    EXPECT_TRUE(joined.take(Message(Type::reports, {{"checkpoint", 1},
                                                    {"cut", json{0, 3}},
                                                    {"images", json{0, 3}},
                                                    {"bytes", json{1, 2, 3, 5'000'000'000}},
                                                    {"stopped_ns", 9},
                                                    {"notices", json{"rank 2: has a pipe"}}})));
    ASSERT_EQ(sent.size(), 1U);
    EXPECT_EQ(sent[0].at("cut"), (json{0, 5}));
    EXPECT_EQ(sent[0].at("images"), (json{0, 5}));
    EXPECT_EQ(sent[0].at("bytes"), (json{1, 2, 3, 5'000'000'000, 40, 50}));
    EXPECT_EQ(sent[0].at("stopped_ns"), 9);
    EXPECT_EQ(sent[0].at("notices"), (json{"rank 2: has a pipe"}));
    EXPECT_FALSE(sent[0].contains("checksums"));
}

// The metadata of a large snapshot do not list each rank, so nobody wants the sizes of all.
TEST_F(Joined, SizesMayBeSummed)
{
    joined.sum(true);
    EXPECT_TRUE(joined.add(image(4, 40)));
    EXPECT_TRUE(joined.take(
        Message(Type::reports, {{"checkpoint", 1}, {"images", json{0, 1}}, {"total", 7}})));
    EXPECT_TRUE(joined.add(image(5, 50)));
    EXPECT_TRUE(sent.empty());
    EXPECT_TRUE(joined.take(
        Message(Type::reports, {{"checkpoint", 1}, {"images", json{2, 3}}, {"total", 8}})));
    ASSERT_EQ(sent.size(), 1U);
    EXPECT_EQ(sent[0].at("images"), (json{0, 5}));
    EXPECT_EQ(sent[0].at("total"), 105);
    EXPECT_FALSE(sent[0].contains("bytes"));
    EXPECT_FALSE(joined.take(
        Message(Type::reports,
                {{"checkpoint", 1}, {"images", json{0, 0}}, {"bytes", json{1}}, {"total", 8}})));
    // What is left of a sum is not of the next checkpoint.
    EXPECT_TRUE(joined.take(
        Message(Type::reports, {{"checkpoint", 2}, {"images", json{0, 0}}, {"total", 1}})));
    EXPECT_TRUE(joined.take(
        Message(Type::reports, {{"checkpoint", 3}, {"images", json{0, 5}}, {"total", 2}})));
    ASSERT_EQ(sent.size(), 2U);
    EXPECT_EQ(sent[1].at("total"), 2);
}

TEST_F(Joined, WhatIsMissingHoldsNothingUp)
{
    EXPECT_TRUE(joined.add(image(4, 1)));
    EXPECT_TRUE(sent.empty());
    loop.run();
    ASSERT_EQ(sent.size(), 1U);
    EXPECT_EQ(sent[0].at("images"), (json{4, 4}));
    // The last of them goes at once: the others have gone before it.
    for (const uint32_t rank : {0U, 1U, 2U, 3U})
        EXPECT_TRUE(joined.add(image(rank, 1)));
    EXPECT_EQ(sent.size(), 1U);
    EXPECT_TRUE(joined.add(image(5, 1)));
    EXPECT_EQ(sent.size(), 2U);
}

TEST_F(Joined, SignsOfLifeSayWhichQuestionTheyAnswer)
{
    joined.look(3);
    const json growing = {{{"rank", 4}, {"bytes", 100}}};
    EXPECT_TRUE(joined.add(Message(Type::alive, {{"images", growing}})));
    EXPECT_TRUE(joined.take(Message(Type::reports, {{"look", 2}, {"alive", json{8, 9}}})));
    EXPECT_TRUE(sent.empty());
    EXPECT_TRUE(joined.take(Message(
        Type::reports,
        {{"look", 3}, {"alive", json{8, 9}}, {"growing", json{0, 0}}, {"sizes", json{7}}})));
    ASSERT_EQ(sent.size(), 2U);
    EXPECT_EQ(sent[0].at("look"), 2);
    EXPECT_EQ(sent[0].at("alive"), (json{8, 9}));
    EXPECT_EQ(sent[0].at("growing"), (json{0, 0, 4, 4}));
    EXPECT_EQ(sent[0].at("sizes"), (json{7, 100}));
    EXPECT_EQ(sent[1].at("look"), 3);
    EXPECT_EQ(sent[1].at("alive"), (json{7, 9}));
}

TEST_F(Joined, DeltasSayWhatTheyAreBasedOn)
{
    const auto delta = [](uint32_t rank, const std::vector<int> &needs) {
        Message message = image(rank, 10 * rank);
        message.fields["needs"] = needs;
        return message;
    };
    EXPECT_TRUE(joined.add(delta(4, {1, 0})));
    EXPECT_TRUE(joined.add(image(5, 50)));
    EXPECT_TRUE(sent.empty());
    const auto based = [](const json &ranks, const std::vector<int> &needs) {
        return json({{"ranks", ranks}, {"needs", needs}});
    };
    const json below = json::array({based({0, 1}, {1, 0}), based({3, 3}, {2})});
    EXPECT_TRUE(joined.take(Message(Type::reports, {{"checkpoint", 1},
                                                    {"images", json{0, 3}},
                                                    {"bytes", json{1, 2, 3, 4}},
                                                    {"deltas", below}})));
    ASSERT_EQ(sent.size(), 1U);
    EXPECT_EQ(sent[0].at("images"), (json{0, 5}));
    EXPECT_EQ(sent[0].at("bytes"), (json{1, 2, 3, 4, 40, 50}));
    EXPECT_EQ(sent[0].at("deltas"), json::array({based({0, 1, 4, 4}, {1, 0}), based({3, 3}, {2})}));
}

TEST_F(Joined, FailuresAndOtherWordsAreNotForJoining)
{
    EXPECT_FALSE(joined.add(
        Message(Type::image, {{"checkpoint", 1}, {"rank", 4}, {"error", "no"}, {"code", 5}})));
    EXPECT_FALSE(joined.add(Message(Type::prepared, {{"checkpoint", 1}, {"error", "no"}})));
    EXPECT_FALSE(joined.add(Message(Type::idle, {{"checkpoint", 1}})));
    EXPECT_TRUE(joined.add(Message(Type::prepared, {{"checkpoint", 2}})));
    EXPECT_FALSE(joined.add(image(4, 1))); // of an earlier checkpoint
    loop.run();
    ASSERT_EQ(sent.size(), 1U);
    EXPECT_EQ(sent[0].at("prepared"), (json{7, 7}));
}

TEST_F(Joined, WhatNoDaemonSaysIsRefused)
{
    const auto take = [&](json fields) { return joined.take(Message(Type::reports, fields)); };
    EXPECT_FALSE(take({{"checkpoint", 1}, {"prepared", json{0, 3}}})); // of three nodes
    EXPECT_FALSE(take({{"checkpoint", 1}, {"cut", json{0, 6}}}));      // of six ranks
    EXPECT_FALSE(take({{"checkpoint", 1}, {"images", json{0, 1}}, {"bytes", json{1}}}));
    EXPECT_FALSE(take({{"checkpoint", 1},
                       {"images", json{0, 1}},
                       {"bytes", json{1, 2}},
                       {"checksums", json{"a"}}}));
    // A delta that is no image; and one of more ranks than there are.
    for (const json &ranks : {json{2, 2}, json{0, 6}})
        EXPECT_FALSE(
            take({{"checkpoint", 1},
                  {"images", json{0, 1}},
                  {"bytes", json{1, 2}},
                  {"deltas", json::array({json({{"ranks", ranks}, {"needs", {0, 1}}})})}}));
    EXPECT_FALSE(take({{"look", 1}, {"alive", json{7, 9}}, {"growing", json{0, 1}}}));
}

// Each rank once, so that a message that fits into a frame is not the work of days.
TEST(JoinedDeltas, OfARankAreThereOnce)
{
    const auto group = [](const json &ranks, const json &needs) {
        return json({{"ranks", ranks}, {"needs", needs}});
    };
    const json one = group(json{0, 1, 4, 4}, json{2, 0});
    const auto good = deltas_of(json::array({one, group(json{2, 2}, json{1})}), 4);
    ASSERT_TRUE(good);
    EXPECT_EQ((Deltas{{0, {2, 0}}, {1, {2, 0}}, {2, {1}}, {4, {2, 0}}}), *good);
    EXPECT_FALSE(deltas_of(json::array({one, group(json{1, 1}, json{1})}), 100));
    EXPECT_FALSE(deltas_of(json::array({one, group(json{2, 2}, json{1})}), 3));
    EXPECT_FALSE(deltas_of(json::array({group(json{2, 2}, json::array())}), 100));
    EXPECT_TRUE(deltas_of(json::array(), 0));
}

} // namespace
} // namespace cryo::coord
