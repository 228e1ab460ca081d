// SPDX-License-Identifier: Apache-2.0
// How long an obstacle is taken for one that passes, and what is said about tries that have ended,
// since their time is up. The tests' clock goes only where they move it.
#include "capture/gather/tries.hpp"

#include <cerrno>
#include <cstdint>
#include <gtest/gtest.h>
#include <string>

using namespace cryo::capture;

namespace {

constexpr uint64_t ms = 1'000'000, second = 1000 * ms;

uint64_t time_now;

uint64_t test_clock()
{
    return time_now;
}

class TriesTest : public testing::Test
{
  protected:
    void SetUp() override
    {
        time_now = 1000 * second;
        obstacles_.may_pass = true;
    }
    // `timeout_s`: 0: there is no deadline.
    Tries tries(unsigned retry_s, uint64_t timeout_s = 0)
    {
        CheckpointOptions options;
        options.retry_s = retry_s;
        return {options, timeout_s == 0 ? 0 : time_now + timeout_s * second, test_clock};
    }
    // A try in which the program stands still for so long, and is refused.
    bool may_pass(Tries &tries, uint64_t stood_ns)
    {
        time_now += stood_ns;
        obstacles_.stood_ns = stood_ns;
        return tries.may_pass(obstacles_);
    }

    Obstacles obstacles_;
};

// What the user is told when the tries have ended.
std::string said(const Tries &tries)
{
    const cryo::Error told =
        tries.told(cryo::Error(ENOTSUP, "refused", cryo::Reason::not_enterable));
    EXPECT_EQ(cryo::Reason::not_enterable, told.reason());
    return told.text();
}

bool has(const std::string &said, const char *text)
{
    return said.find(text) != std::string::npos;
}

} // namespace

TEST_F(TriesTest, MayBeLongerWhereRetryHasEndedThem)
{
    for (const uint64_t timeout_s : {0, 1200}) {
        Tries some = tries(600, timeout_s);
        EXPECT_TRUE(may_pass(some, 0));
        time_now += 600 * second;
        EXPECT_FALSE(may_pass(some, 0));
        EXPECT_TRUE(has(said(some), "tried 2 times over 600.0 s")) << said(some);
        EXPECT_TRUE(has(said(some), "--retry=SECONDS tries for longer")) << said(some);
        EXPECT_FALSE(has(said(some), "--time")) << said(some);
    }
}

TEST_F(TriesTest, EndWhenTheProgramHasRunForSoLong)
{
    Tries some = tries(4);
    EXPECT_TRUE(may_pass(some, 16 * second / 10));
    EXPECT_EQ(some.pause_ns(), 32 * second / 10); // twice as long as it stood
    time_now += some.pause_ns();
    EXPECT_TRUE(may_pass(some, 16 * second / 10));
    EXPECT_EQ(some.pause_ns(), 8 * second / 10); // what is left of four seconds
    time_now += some.pause_ns();
    EXPECT_FALSE(may_pass(some, 16 * second / 10));
    EXPECT_EQ(some.count(), 3U);
}

// On a slow machine the program stands still for longer than there is time for all tries.
TEST_F(TriesTest, AreMoreThanOneHoweverLongAStopIs)
{
    Tries some = tries(2);
    time_now += 600 * ms; // in which the stop was prepared
    EXPECT_TRUE(may_pass(some, 3600 * second));
    EXPECT_EQ(some.pause_ns(), 1400 * ms);
    time_now += some.pause_ns();
    EXPECT_FALSE(may_pass(some, 3600 * second));
    EXPECT_TRUE(has(said(some), "tried 2 times")) << said(some);
}

TEST_F(TriesTest, AreNotMadeWithoutTimeForThem)
{
    Tries none = tries(0);
    EXPECT_FALSE(may_pass(none, ms));
    EXPECT_EQ(none.count(), 1U);
}

TEST_F(TriesTest, AreNotOfferedForLongerWhereTheDeadlineHasEndedThem)
{
    Tries some = tries(1200, 600);
    EXPECT_TRUE(may_pass(some, 0));
    EXPECT_FALSE(may_pass(some, 599 * second)); // the pause would end behind it
    EXPECT_TRUE(has(said(some), "tried 2 times")) << said(some);
    EXPECT_FALSE(has(said(some), "--retry")) << said(some);
    EXPECT_TRUE(has(said(some), "--time allows no more")) << said(some);
}

// On a slow machine the program may stand still for most of the time.
TEST_F(TriesTest, CountForAnObstacleOnlyWhileTheProgramRuns)
{
    Tries some = tries(600);
    obstacles_.things = {"a connection"};
    EXPECT_TRUE(may_pass(some, 0));
    EXPECT_TRUE(may_pass(some, second / 2));
    time_now += second / 2; // too long for a connection that nobody accepts
    EXPECT_FALSE(may_pass(some, 0));
}

// A virtual machine may, too, for seconds.
TEST_F(TriesTest, CountForAnObstacleNotWhileTheMachineStandsStill)
{
    Tries some = tries(600);
    obstacles_.things = {"a connection"};
    EXPECT_TRUE(may_pass(some, 0));
    time_now += 5 * second; // and not two milliseconds
    EXPECT_TRUE(may_pass(some, 0));
    unsigned more = 0;
    do
        time_now += some.pause_ns();
    while (may_pass(some, 0) && ++more < 1000);
    EXPECT_LT(more, 1000U);
}
