// SPDX-License-Identifier: Apache-2.0
//
// Counters, ids, wire formats, and what a node of the tree keeps.
#include <gtest/gtest.h>
#include <random>
#include <thread>

#include "bookmark/node.hpp"

namespace cryo::bookmark {
namespace {

class CountingMemory : public std::pmr::memory_resource
{
  public:
    size_t used = 0;

  private:
    void *do_allocate(size_t bytes, size_t alignment) override
    {
        used += bytes;
        return std::pmr::new_delete_resource()->allocate(bytes, alignment);
    }
    void do_deallocate(void *p, size_t bytes, size_t alignment) override
    {
        used -= bytes;
        std::pmr::new_delete_resource()->deallocate(p, bytes, alignment);
    }
    bool do_is_equal(const memory_resource &other) const noexcept override
    {
        return this == &other;
    }
};

TEST(Comm, CountsByPeer)
{
    const WorldRank peers[] = {7, 3, 900};
    Comm comm(5, 3, peers, 3, Threads::one, std::pmr::get_default_resource());
    comm.sent(0, 10);
    comm.sent(0, 20);
    comm.received(2, 5);
    comm.sent(1, 1);
    comm.unsent(1, 1);
    EXPECT_EQ(comm.sent_to(7), (Tally{2, 30}));
    EXPECT_EQ(comm.sent_to(3), Tally{});
    EXPECT_EQ(comm.received_from(900), (Tally{1, 5}));
    EXPECT_EQ(comm.sent_to(0), Tally{});
    std::vector<WorldRank> used;
    comm.for_used([&](WorldRank rank, const Tally &, const Tally &) { used.push_back(rank); });
    EXPECT_EQ(used, (std::vector<WorldRank>{7, 900}));
    comm.forget_counts();
    EXPECT_EQ(comm.sent_to(7), Tally{});
}

TEST(Comm, MemoryIsForPeersThatAreUsed)
{
    CountingMemory memory;
    {
        Comm comm(1, 100'000, {}, 100'000, Threads::one, &memory);
        size_t empty = memory.used;
        EXPECT_LT(empty, 40'000U);
        comm.sent(5, 1);
        comm.sent(99'999, 1);
        EXPECT_LE(memory.used, empty + 2 * 64 * 16);
    }
    EXPECT_EQ(memory.used, 0U);
}

TEST(Comm, ThreadsCountTogether)
{
    Comm comm(1, 1000, {}, 1000, Threads::many, std::pmr::get_default_resource());
    constexpr int kEach = 20'000;
    std::vector<std::thread> threads;
    threads.reserve(4);
    for (int t = 0; t < 4; t++)
        threads.emplace_back([&] {
            for (int i = 0; i < kEach; i++)
                comm.sent(i % 1000, 3);
        });
    for (std::thread &t : threads)
        t.join();
    Tally total;
    comm.for_used([&](WorldRank, const Tally &sent, const Tally &) { total += sent; });
    EXPECT_EQ(total, (Tally{4 * kEach, 4 * kEach * 3}));
}

TEST(Comm, IdsDiffer)
{
    std::set<CommId> ids;
    for (CommId parent = 1; parent <= 10; parent++)
        for (uint64_t ordinal = 1; ordinal <= 100; ordinal++)
            for (uint64_t leader = 0; leader < 100; leader++)
                ids.insert(derive_comm_id(parent, ordinal, leader));
    EXPECT_EQ(ids.size(), 100'000U);
}

Message random_message(std::mt19937_64 &random)
{
    Message m(MessageType(1 + random() % kLastMessageType), uint32_t(random()));
    switch (m.type) {
    case MessageType::targets:
    case MessageType::clocks:
    case MessageType::raise:
        for (uint64_t n = random() % 5; n > 0; n--)
            m.clocks.push_back(
                {random(), uint32_t(random()), uint32_t(random()), random(), random()});
        break;
    case MessageType::ready:
    case MessageType::expected:
        m.acks = uint32_t(random());
        for (uint64_t n = random() % 5; n > 0; n--)
            m.counts.push_back({uint32_t(random()), {random(), random()}});
        break;
    case MessageType::need:
    case MessageType::unneed:
        m.need = {uint32_t(random()), uint32_t(random()), random(), random()};
        break;
    case MessageType::state:
    case MessageType::abandon:
        m.state = {uint32_t(random()), Doing(random() % (kLastDoing + 1)),
                   uint32_t(random()), random(),
                   random(),           random()};
        break;
    default:
        break;
    }
    return m;
}

TEST(Wire, RoundTrip)
{
    std::mt19937_64 random(1);
    for (int i = 0; i < 2000; i++) {
        Message m = random_message(random);
        auto bytes = pack(m, std::pmr::get_default_resource());
        ASSERT_EQ(bytes.size(), packed_size(m));
        Message back(MessageType::state, 0);
        ASSERT_TRUE(unpack(bytes, back));
        ASSERT_EQ(back, m);
        for (size_t n = 0; n < bytes.size(); n++)
            ASSERT_FALSE(unpack(Bytes(bytes).first(n), back)) << "cut at " << n;
        bytes.push_back(0);
        ASSERT_FALSE(unpack(bytes, back));
    }
}

TEST(Wire, SizesAreThoseOfTheManual)
{
    EXPECT_EQ(packed_size(Message(MessageType::request, 1)), 8U);
    EXPECT_EQ(packed_size(Message(MessageType::need, 1)), 32U);
    EXPECT_EQ(packed_size(Message(MessageType::state, 1)), 48U);
    Message m(MessageType::ready, 1);
    m.counts.resize(3);
    EXPECT_EQ(packed_size(m), 16U + 3 * 24);
    Message c(MessageType::clocks, 1);
    c.clocks.resize(2);
    EXPECT_EQ(packed_size(c), 16U + 2 * 32);
}

TEST(Wire, GarbageIsRefused)
{
    std::mt19937_64 random(2);
    Message back(MessageType::state, 0);
    std::vector<uint8_t> bytes;
    for (int i = 0; i < 20'000; i++) {
        Message m = random_message(random);
        auto good = pack(m, std::pmr::get_default_resource());
        bytes.assign(good.begin(), good.end());
        for (int n = 0; n < 3; n++)
            bytes[random() % bytes.size()] = uint8_t(random());
        if (unpack(bytes, back)) {
            ASSERT_EQ(packed_size(back), bytes.size());
        }
    }
}

TEST(ClocksBelow, AHomeHasAllMembersBelowIt)
{
    ClocksBelow clocks(10);
    clocks.hear(0, {.comm = 1, .members = 3, .heard = 2, .low = 4, .high = 5});
    clocks.hear(1, {.comm = 1, .members = 3, .heard = 1, .low = 7, .high = 7});
    clocks.hear(1, {.comm = 2, .members = 9, .heard = 1, .low = 2, .high = 2});
    ClocksBelow::Entries above;
    ClocksBelow::Targets targets;
    clocks.find_homes(false, above, targets);
    EXPECT_TRUE(clocks.is_home(1));
    EXPECT_FALSE(clocks.is_home(2));
    ASSERT_EQ(1U, above.size());
    EXPECT_EQ((ClockEntry{.comm = 2, .members = 9, .heard = 1, .low = 2, .high = 2}), above[0]);
    ASSERT_EQ(1U, targets.size()); // who has the highest clock runs on to nowhere
    EXPECT_EQ(7U, targets.at(0).at(0).high);
    targets.clear();
    clocks.raise(2, 3);
    clocks.add_targets(2, targets);
    EXPECT_EQ(3U, targets.at(1).at(0).high);
    EXPECT_EQ((std::vector<uint32_t>{0, 1}), clocks.children_of(1));
    EXPECT_TRUE(clocks.children_of(3).empty());
}

TEST(CountsBelow, AReportIsOutOfDateUntilItAcknowledgesAll)
{
    const Routes routes = {.children = 2, .is_rank = {true, true}, .runs = {{0, 0, 0}, {1, 1, 1}}};
    CountsBelow counts(2);
    counts.told(0);
    Message ready(MessageType::ready, 1);
    ready.counts = {{.rank = 1, .tally = {2, 20}}, {.rank = 5, .tally = {1, 10}}};
    counts.hear(0, ready);
    counts.hear(1, Message(MessageType::ready, 1));
    EXPECT_FALSE(counts.is_report_due());
    ready.acks = 1;
    counts.hear(0, ready);
    ASSERT_TRUE(counts.is_report_due());
    Message above(MessageType::ready, 1);
    counts.report(routes, above);
    ASSERT_EQ(1U, above.counts.size());
    EXPECT_EQ(5U, above.counts[0].rank);
    EXPECT_FALSE(counts.is_report_due());
    counts.told_by_parent();
    EXPECT_TRUE(counts.is_report_due());
    const CountEntry from_elsewhere = {.rank = 1, .tally = {3, 30}};
    counts.expect({&from_elsewhere, 1});
    std::vector<Message> expected(2, Message(MessageType::expected, 1));
    counts.take(routes, expected);
    EXPECT_TRUE(expected[0].counts.empty());
    ASSERT_EQ(1U, expected[1].counts.size());
    EXPECT_EQ((Tally{5, 50}), expected[1].counts[0].tally);
}

TEST(Node, RefusesWhatIsNoMessage)
{
    struct Silent : Node::Output {
        void to_child(uint32_t, Bytes) override {}
        void to_parent(Bytes) override {}
        void state(const StateEntry &) override {}
        void wanted() override {}
    } output;
    Node node({.routes = Topology({{0, 1}}, 2).routes(0), .root = true}, output);
    ASSERT_TRUE(node.request());
    EXPECT_FALSE(node.request()) << "one at a time";
    uint8_t garbage[] = {1, 2, 3};
    EXPECT_FALSE(node.from_child(0, garbage));
    auto wrong_way = pack(Message(MessageType::go, 1), std::pmr::get_default_resource());
    EXPECT_FALSE(node.from_child(0, wrong_way));
    node.lost_child(1);
    EXPECT_EQ(node.outcome(), Node::Outcome::abandoned);
    EXPECT_EQ(describe(node.reason()), "rank 1: is gone: it has left MPI, or ended");
    EXPECT_FALSE(node.request()) << "part of the job is gone";
}

struct Told : Node::Output {
    void to_child(uint32_t, Bytes bytes) override
    {
        Message m(MessageType::state, 0);
        ASSERT_TRUE(unpack(bytes, m));
        types.push_back(m.type);
    }
    void to_parent(Bytes) override {}
    void state(const StateEntry &) override {}
    void wanted() override { wishes++; }

    std::vector<MessageType> types;
    int wishes = 0;
};

TEST(Node, WishesOfThoseWhoWillBeInTheCheckpointUnderWayAreNoOthers)
{
    Told told;
    Node node({.routes = Topology({{0, 1}}, 2).routes(0), .root = true}, told);
    const auto wish = [&](uint32_t through) { // from a rank that has completed that checkpoint
        ASSERT_TRUE(node.from_child(
            0, pack(Message(MessageType::want, through), std::pmr::get_default_resource())));
    };
    wish(0);
    EXPECT_EQ(told.wishes, 1);
    ASSERT_TRUE(node.request());
    wish(0);
    EXPECT_EQ(told.wishes, 1) << "it will be in the first";
    node.abandon({.rank = 0, .doing = Doing::failed});
    wish(1);
    EXPECT_EQ(told.wishes, 2) << "the first is over";
}

TEST(Node, KeepsNoMoreCommunicatorsThanItMay)
{
    Told told;
    Node node({.routes = Topology({{0, 1}}, 2).routes(0), .root = true, .most_communicators = 2},
              told);
    ASSERT_TRUE(node.request());
    const auto takes = [&](uint32_t child, MessageType type, std::vector<CommId> comms) {
        Message m(type, node.epoch());
        for (const CommId comm : comms)
            m.clocks.push_back({.comm = comm, .members = 2, .heard = 1, .low = 1, .high = 1});
        return bool(node.from_child(child, pack(m, std::pmr::get_default_resource())));
    };
    EXPECT_TRUE(takes(0, MessageType::clocks, {1, 2}));
    EXPECT_FALSE(takes(1, MessageType::clocks, {1, 3}));
    EXPECT_TRUE(takes(1, MessageType::clocks, {1, 2}));
    EXPECT_TRUE(takes(0, MessageType::raise, {1, 2}));
    EXPECT_FALSE(takes(0, MessageType::raise, {2, 4}));
}

TEST(Node, WhatItDeclinesComesToAnEndAtTheRanks)
{
    Told told;
    Node node({.routes = Topology({{0}}, 2).routes(0), .root = true}, told);
    node.decline();
    EXPECT_EQ(told.types, (std::vector{MessageType::request, MessageType::abandon}));
    EXPECT_EQ(node.outcome(), Node::Outcome::abandoned);
    ASSERT_TRUE(node.request());
    told.types.clear();
    node.decline(); // ignored while another checkpoint is under way
    EXPECT_TRUE(told.types.empty());
}

} // namespace
} // namespace cryo::bookmark
