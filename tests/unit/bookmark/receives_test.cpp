// SPDX-License-Identifier: Apache-2.0
//
// The receiving side of one rank, compared with plain matching lists: whatever is posted, probed,
// cancelled, drained, withdrawn and posted again, each receive gets the message it should.
#include <gtest/gtest.h>

#include "amount.hpp"
#include "bookmark/receives.hpp"
#include "rank_sim.hpp"

namespace cryo::bookmark::sim {
namespace {

constexpr WorldRank kSelf = 0;
constexpr uint32_t kRanks = 4;

struct Bench {
    explicit Bench(uint64_t seed)
        : program{.ranks = std::vector<std::vector<Op>>(kRanks), .comms = {}},
          shared({.seed = seed, .program = &program}), mpi(shared, kSelf),
          receives(mpi, std::pmr::get_default_resource()),
          comm(1, kRanks, {}, kRanks, Threads::one, std::pmr::get_default_resource())
    {}

    int upto(int n) { return int(shared.random() % uint64_t(n)); }

    void send(int from, int tag, bool rendezvous = false, uint64_t bytes = 8)
    {
        shared.net.send({.id = ++sent,
                         .from = WorldRank(from),
                         .to = kSelf,
                         .comm = 1,
                         .source = from,
                         .tag = tag,
                         .bytes = bytes,
                         .rendezvous = rendezvous});
    }
    void deliver_all()
    {
        while (shared.net.channels())
            shared.net.deliver(0);
    }
    Request &post(int source, int tag, uint64_t capacity = 100)
    {
        Request &r = *requests.emplace_back(std::make_unique<Request>());
        r.comm = &comm;
        r.source = source;
        r.tag = tag;
        r.capacity = capacity;
        r.number = ++posted;
        shared.net.reference.post(r.number, kSelf, 1, source, tag);
        receives.post(r);
        return r;
    }
    // Everything a cut does, with messages arriving in between; then perhaps a new library.
    void cut(bool restart)
    {
        receives.sweep();
        receives.drain(comm);
        receives.withdraw();
        deliver_all();
        for (int i = 0; i < 1000 && !(receives.quiet() && shared.net.lost_at_restart().empty());
             i++) {
            while (shared.net.transfers())
                shared.net.transfer(0);
            receives.sweep();
            receives.drain(comm);
        }
        EXPECT_TRUE(receives.quiet());
        EXPECT_EQ(shared.net.lost_at_restart(), "");
        if (restart)
            shared.net.restart();
        receives.repost();
    }
    uint64_t expected(const Request &r) { return shared.net.reference.got(r.number); }

    Program program;
    Shared shared;
    SimMpi mpi;
    Receives receives;
    Comm comm;
    std::vector<std::unique_ptr<Request>> requests;
    uint64_t sent = 0;
    uint64_t posted = 0;
};

TEST(Receives, AnyPatternsInAnyOrder)
{
    for (uint64_t seed = 0; seed < amount(2000); seed++) {
        Bench b(seed);
        auto pattern = [&] {
            return std::pair(b.upto(2) ? kAnySource : b.upto(int(kRanks)),
                             b.upto(2) ? kAnyTag : b.upto(3));
        };
        std::deque<std::pair<Matched, uint64_t>> matched; // with the message expected
        for (int step = 0; step < 60; step++) {
            switch (b.upto(12)) {
            case 0:
            case 1:
            case 2:
                b.send(b.upto(int(kRanks)), b.upto(3), b.upto(3) == 0);
                break;
            case 3:
            case 4:
                if (size_t n = b.shared.net.channels())
                    b.shared.net.deliver(b.shared.random() % n);
                break;
            case 5:
                if (b.shared.net.transfers())
                    b.shared.net.transfer(0);
                break;
            case 6:
            case 7: {
                auto [source, tag] = pattern();
                b.post(source, tag);
                break;
            }
            case 8: { // a probe reports the message that a receive would get
                auto [source, tag] = pattern();
                Arrival seen;
                bool is_there = b.receives.probe(b.comm, source, tag, seen);
                auto &entry = matched.emplace_back();
                ASSERT_EQ(b.receives.mprobe(b.comm, source, tag, entry.first), is_there);
                if (!is_there) {
                    matched.pop_back();
                    break;
                }
                ASSERT_EQ(entry.first.arrival.source, seen.source);
                ASSERT_EQ(entry.first.arrival.tag, seen.tag);
                entry.second = b.shared.net.reference.take(kSelf, 1, source, tag);
                break;
            }
            case 9:
                if (!b.requests.empty()) {
                    Request &r = *b.requests[size_t(b.upto(int(b.requests.size())))];
                    if (r.state == Receive::State::done || r.state == Receive::State::cancelled)
                        break;
                    bool cancelled = b.receives.cancel(r);
                    ASSERT_EQ(b.shared.net.reference.cancel(r.number, kSelf, 1), cancelled);
                }
                break;
            case 10:
                b.receives.sweep();
                b.receives.drain(b.comm);
                break;
            default:
                if (b.upto(4) == 0)
                    b.cut(b.upto(2));
            }
        }
        b.cut(true);
        for (auto &[m, id] : matched) {
            Request r;
            r.capacity = 100;
            b.receives.receive_matched(m, r);
            ASSERT_TRUE(b.receives.test(r));
            ASSERT_EQ(r.payload, id) << "seed " << seed;
        }
        for (const auto &r : b.requests) {
            bool done = b.receives.test(*r) && r->state == Receive::State::done;
            ASSERT_EQ(done ? r->payload : 0, b.expected(*r)) << "seed " << seed;
            if (!done && r->state != Receive::State::cancelled)
                b.receives.cancel(*r); // a later step would use the destroyed request
        }
    }
}

TEST(Receives, TruncationIsAsFromTheLibrary)
{
    for (bool drained : {false, true}) {
        Bench b(1);
        b.send(1, 5, false, 64);
        b.deliver_all();
        if (drained)
            b.receives.drain(b.comm);
        Request &r = b.post(1, 5, 16);
        ASSERT_TRUE(b.receives.test(r));
        EXPECT_TRUE(r.arrival.truncated);
        EXPECT_EQ(r.arrival.bytes, 16U);
        // The library alone does not report how long the message was.
        EXPECT_EQ(b.receives.bytes_known(), drained);
    }
}

TEST(Receives, OneThatTheLibraryHasCancelledIsForgotten)
{
    Bench b(1);
    const Request &older = b.post(1, 5);
    Request &r = b.post(1, 6);
    b.shared.net.cancel(r.native);
    b.receives.completed(r, {.cancelled = true});
    EXPECT_EQ(r.state, Receive::State::cancelled);
    EXPECT_TRUE(b.receives.test(r));
    b.comm.for_used([](WorldRank, const Tally &, const Tally &) { ADD_FAILURE() << "counted"; });
    b.receives.post(r); // the same object serves another receive
    EXPECT_EQ(older.after, &r);
    EXPECT_EQ(r.after, nullptr);
    b.send(1, 5);
    b.send(1, 6);
    b.cut(true);
    for (const auto &request : b.requests)
        EXPECT_TRUE(b.receives.test(*request));
    EXPECT_EQ(older.payload, 1U);
    EXPECT_EQ(r.payload, 2U);
}

TEST(Receives, AMessageThatIsStillArrivingKeepsItsPlace)
{
    Bench b(1);
    b.send(1, 5, true);
    b.send(1, 5, false);
    b.deliver_all();
    b.receives.drain(b.comm);
    Request &first = b.post(1, 5);
    Request &second = b.post(1, 5);
    EXPECT_FALSE(b.receives.test(first)); // the sender has not delivered its data yet
    EXPECT_TRUE(b.receives.test(second));
    b.shared.net.transfer(0);
    EXPECT_TRUE(b.receives.test(first));
    EXPECT_EQ(first.payload, 1U);
    EXPECT_EQ(second.payload, 2U);
}

TEST(Receives, WithdrawnOnesAreCountedWhenTheyHadMatched)
{
    Bench b(1);
    Request &r = b.post(kAnySource, kAnyTag);
    Request &other = b.post(2, 9);
    b.send(1, 5);
    b.deliver_all();
    b.receives.withdraw();
    EXPECT_EQ(r.state, Receive::State::done);
    EXPECT_EQ(other.state, Receive::State::withdrawn);
    EXPECT_EQ(b.comm.received_from(1).messages, 1U);
    EXPECT_TRUE(b.receives.quiet());
}

} // namespace
} // namespace cryo::bookmark::sim
