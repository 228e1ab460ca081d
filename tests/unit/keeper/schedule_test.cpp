// SPDX-License-Identifier: Apache-2.0
//
// When automatic checkpoints are due, tested by arithmetic alone.
#include <cmath>
#include <gtest/gtest.h>

#include "keeper/schedule.hpp"

namespace cryo::keeper {
namespace {

// The share of a run that is lost on average: saving, and at each failure redoing half an interval
// and the checkpoint. The estimate must be near the minimum over all intervals.
double lost_share(double interval, double cost, double failures)
{
    const double cycle = interval + cost;
    return failures / interval * (std::exp(cycle / failures) - 1) - 1;
}

TEST(BestInterval, IsTheCheapestOfAll)
{
    for (const double cost : {0.01, 1.0, 60.0, 600.0}) {
        for (const double failures : {3600.0, 86400.0, 2.6e6}) {
            const double chosen = best_interval(cost, failures);
            double least = HUGE_VAL;
            for (double t = cost / 100; t < failures; t *= 1.01)
                least = std::min(least, lost_share(t, cost, failures));
            EXPECT_LE(lost_share(chosen, cost, failures), least * 1.01)
                << cost << " s a checkpoint, a failure every " << failures << " s";
        }
    }
}

TEST(BestInterval, IsThatOfFailuresWhereCheckpointsCostMore)
{
    EXPECT_EQ(best_interval(200, 100), 100);
}

TEST(Schedule, AFixedIntervalIsFromBeginningToBeginning)
{
    const Settings settings = {.interval = "60s", .interval_s = 60};
    Schedule schedule(settings);
    EXPECT_EQ(schedule.pause(0), 60);
    EXPECT_EQ(schedule.pause(20), 40);
    EXPECT_EQ(schedule.pause(90), 90); // the pause is as long as the checkpoint took
}

TEST(Schedule, OverheadLengthensTheInterval)
{
    const Settings settings = {.interval = "1s", .max_overhead = 1, .interval_s = 1};
    Schedule schedule(settings);
    EXPECT_EQ(schedule.interval(), 1);
    schedule.measured({.lost = 0.5, .total = 2});
    EXPECT_DOUBLE_EQ(schedule.interval(), 50);
    schedule.measured({.lost = 0.1, .total = 2}); // recent checkpoints cost less
    EXPECT_LT(schedule.interval(), 50);
    EXPECT_GT(schedule.interval(), 10);
}

TEST(Schedule, AutomaticLearnsCostAndFailures)
{
    const Settings settings = {
        .interval = "auto", .failure_interval = 86400, .max_overhead = 1, .interval_s = 0};
    Schedule schedule(settings);
    EXPECT_EQ(schedule.interval(), 30); // to learn what a checkpoint costs
    schedule.measured({.lost = 0.1, .total = 1});
    const double calm = schedule.interval();
    EXPECT_NEAR(calm, std::sqrt(2 * 0.1 * 86400), 1);
    schedule.set_failure_interval(3600);
    EXPECT_LT(schedule.interval(), calm / 4);
}

TEST(Schedule, TheLastOneHasTimeForAllThatWasSeen)
{
    const Settings settings = {.interval = "60s", .interval_s = 60};
    Schedule schedule(settings);
    EXPECT_EQ(schedule.reserve(), 30);
    schedule.measured({.lost = 0.1, .total = 10});
    schedule.measured({.lost = 0.1, .total = 1});
    schedule.flushed(5);
    EXPECT_GE(schedule.reserve(), 30);
    EXPECT_LE(schedule.reserve(), 40);
}

} // namespace
} // namespace cryo::keeper
