// SPDX-License-Identifier: Apache-2.0
// How long an obstacle is taken for one that passes, and what is said about tries that have ended,
// since their time is up.
#include "capture/tries.hpp"

#include <cerrno>
#include <cstdint>
#include <ctime>
#include <gtest/gtest.h>
#include <string>

using namespace cryo::capture;

namespace {

constexpr uint64_t second = 1'000'000'000;

uint64_t monotonic_ns()
{
    timespec now = {};
    clock_gettime(CLOCK_MONOTONIC, &now);
    return static_cast<uint64_t>(now.tv_sec) * second + static_cast<uint64_t>(now.tv_nsec);
}

// After a second try, when a third one would come too late. `timeout_s`: 0: there is no deadline.
std::string said_after_two(unsigned retry_s, uint64_t timeout_s)
{
    CheckpointOptions options;
    options.retry_s = retry_s;
    Tries tries(options, timeout_s == 0 ? 0 : monotonic_ns() + timeout_s * second);
    Obstacles obstacles;
    obstacles.may_pass = true;
    EXPECT_TRUE(tries.may_pass(obstacles));
    obstacles.stood_ns = 3600 * second; // the pause is longer than that
    EXPECT_FALSE(tries.may_pass(obstacles));
    return tries.told(cryo::Error(ENOTSUP, "refused")).text();
}

bool has(const std::string &said, const char *text)
{
    return said.find(text) != std::string::npos;
}

} // namespace

TEST(Tries, MayBeLongerWhereRetryHasEndedThem)
{
    for (const uint64_t timeout_s : {0, 1200}) {
        const std::string said = said_after_two(600, timeout_s);
        EXPECT_TRUE(has(said, "tried 2 times")) << said;
        EXPECT_TRUE(has(said, "--retry=SECONDS tries for longer")) << said;
        EXPECT_FALSE(has(said, "--time")) << said;
    }
}

TEST(Tries, EndWhenTheProgramHasRunForSoLong)
{
    constexpr uint64_t stood_ns = 16 * second / 10;
    CheckpointOptions options;
    options.retry_s = 4;
    Tries tries(options, 0);
    Obstacles obstacles;
    obstacles.may_pass = true;
    obstacles.stood_ns = stood_ns;
    for (const uint64_t begun = monotonic_ns(); monotonic_ns() < begun + stood_ns;)
        ;
    EXPECT_TRUE(tries.may_pass(obstacles)); // the pause lasts for twice as long as it stood
    obstacles.stood_ns = 0;
    for (const uint64_t begun = monotonic_ns(); monotonic_ns() < begun + 4 * second;)
        ;
    EXPECT_FALSE(tries.may_pass(obstacles));
}

TEST(Tries, AreNotOfferedForLongerWhereTheDeadlineHasEndedThem)
{
    const std::string said = said_after_two(1200, 600);
    EXPECT_TRUE(has(said, "tried 2 times")) << said;
    EXPECT_FALSE(has(said, "--retry")) << said;
    EXPECT_TRUE(has(said, "--time allows no more")) << said;
}

// On a slow machine the program may stand still for most of the time.
TEST(Tries, CountForAnObstacleOnlyWhileTheProgramRuns)
{
    constexpr uint64_t long_ns = second / 2; // for a connection that nobody accepts
    CheckpointOptions options;
    options.retry_s = 600;
    Tries tries(options, 0);
    Obstacles obstacles;
    obstacles.may_pass = true;
    obstacles.things = {"a connection"};
    const uint64_t before = monotonic_ns();
    EXPECT_TRUE(tries.may_pass(obstacles));
    const auto let_pass = [](uint64_t since) {
        while (monotonic_ns() < since + long_ns)
            ;
    };
    let_pass(before);
    obstacles.stood_ns = monotonic_ns() - before;
    EXPECT_TRUE(tries.may_pass(obstacles));
    let_pass(monotonic_ns());
    obstacles.stood_ns = 0;
    EXPECT_FALSE(tries.may_pass(obstacles));
}
