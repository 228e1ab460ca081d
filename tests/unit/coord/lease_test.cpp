// SPDX-License-Identifier: Apache-2.0
//
// Leases: no node acts at a time at which the first daemon takes its ranks for dead.
#include "coord/lease.hpp"

#include <gtest/gtest.h>
#include <random>

namespace cryo::coord {
namespace {

constexpr LeaseTimes times = {.lease = 60, .margin = 20, .renewal = 10};

TEST(Lease, CountsFromTheRequest)
{
    Lease lease(times.lease);
    EXPECT_EQ(lease.end(), 0);
    const uint64_t first = lease.ask(100);
    lease.granted(first); // however late the answer comes
    EXPECT_EQ(lease.end(), 160);
}

TEST(Lease, IsNotShortenedByAnEarlierAnswer)
{
    Lease lease(times.lease);
    const uint64_t first = lease.ask(100);
    const uint64_t second = lease.ask(110);
    lease.granted(second);
    lease.granted(first);
    EXPECT_EQ(lease.end(), 170);
}

TEST(Lease, IsNotProlongedByAnAnswerThatWasNotAskedFor)
{
    Lease lease(times.lease);
    const uint64_t first = lease.ask(100);
    lease.granted(first);
    lease.granted(first);
    lease.granted(77);
    EXPECT_EQ(lease.end(), 160);
}

TEST(Lease, HoldsFewRequestsThatNobodyAnswers)
{
    Lease lease(times.lease);
    const uint64_t first = lease.ask(1);
    for (int64_t now = 2; now < 1000; now++)
        lease.ask(now);
    lease.granted(first);
    EXPECT_EQ(lease.end(), 0); // forgotten, which is safe
}

TEST(Grants, EndWithTheLeaseAndAreOverAfterTheMargin)
{
    Grants grants(times);
    EXPECT_TRUE(grants.empty());
    EXPECT_EQ(grants.over(1), 0);
    grants.grant(1, 100);
    grants.grant(2, 150);
    EXPECT_TRUE(grants.unrenewed(159).empty());
    EXPECT_EQ(grants.unrenewed(160), std::vector<uint32_t>{1});
    EXPECT_EQ(grants.over(1), 180);
    grants.grant(1, 160);
    EXPECT_EQ(grants.over(1), 240);
    grants.forget(1);
    EXPECT_FALSE(grants.has(1));
    EXPECT_EQ(grants.unrenewed(1000), std::vector<uint32_t>{2});
}

TEST(LeaseTimes, LeaveRoomForRequestsThatAreLost)
{
    const LeaseTimes usual = lease_times();
    EXPECT_GT(usual.margin, 0);
    EXPECT_GE(usual.lease / usual.renewal, 3);
}

// Of one node and the first daemon, whose clocks begin anywhere and run unequally, over a network
// that delays and loses. A node acts until the end of its lease by its own clock.
class World
{
  public:
    explicit World(uint64_t seed) : random_(seed)
    {
        rate_ = 1 + at_most(10) / 1000.0; // the node's clock is slower: worse for us
    }

    void run()
    {
        for (now_ = 0; now_ < 2000; now_++) {
            if (is_due(asks_at_) && is_there())
                ask();
            deliver();
            if (granted_ && grants_.unrenewed(now_).size() == 1 && over_ == 0) {
                over_ = grants_.over(1);
                grants_.forget(1);
            }
            if (over_ != 0 && now_ >= over_) {
                ASSERT_GE(node_clock(), lease_.end()) << "the node acts still";
                return;
            }
        }
    }

  private:
    struct Packet {
        int64_t at;
        uint64_t number;
        bool is_request;
    };
    int64_t at_most(int64_t most) { return static_cast<int64_t>(random_() % (most + 1)); }
    int64_t node_clock() const { return 5'000'000 + static_cast<int64_t>(now_ / rate_); }
    // Before its first lease it does not act, but asks.
    bool is_there() const { return lease_.end() == 0 || node_clock() < lease_.end(); }
    bool is_due(int64_t &when)
    {
        if (now_ < when)
            return false;
        when = now_ + times.renewal + at_most(5);
        return true;
    }
    void ask() { send(lease_.ask(node_clock()), true); }
    void send(uint64_t number, bool is_request)
    {
        const bool is_torn = now_ > torn_at_;
        if (!is_torn || at_most(9) == 0)
            flying_.push_back({now_ + 1 + at_most(is_torn ? 200 : 3), number, is_request});
    }
    void deliver()
    {
        const std::vector<Packet> all = std::move(flying_);
        flying_.clear();
        for (const Packet &one : all) {
            if (one.at > now_) {
                flying_.push_back(one);
            } else if (!one.is_request) {
                if (is_there()) // else the kernel has ended it
                    lease_.granted(one.number);
            } else if (over_ == 0) {
                grants_.grant(1, now_);
                granted_ = true;
                send(one.number, false);
            }
        }
    }

    std::mt19937_64 random_;
    double rate_ = 1;
    int64_t now_ = 0;
    int64_t asks_at_ = 0;
    int64_t torn_at_ = static_cast<int64_t>(random_() % 500);
    int64_t over_ = 0;
    bool granted_ = false;
    Lease lease_{times.lease};
    Grants grants_{times};
    std::vector<Packet> flying_;
};

TEST(Lease, NoNodeActsWhenItIsTakenForDead)
{
    for (uint64_t seed = 0; seed < 5000; seed++) {
        World(seed).run();
        ASSERT_FALSE(HasFatalFailure()) << "seed " << seed;
    }
}

} // namespace
} // namespace cryo::coord
