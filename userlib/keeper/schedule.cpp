// SPDX-License-Identifier: Apache-2.0
#include "keeper/schedule.hpp"

#include <algorithm>
#include <cmath>

namespace cryo::keeper {

namespace {

constexpr double first_s = 30;   // before the first checkpoint, whose cost is not known
constexpr double shortest_s = 1; // the least interval that is chosen automatically
constexpr double margin_s = 2;   // before the deadline, on top of twice the longest time so far
constexpr double unknown_s = 30; // before the deadline, when nothing was measured
constexpr double weight = 0.5;   // of the newest measurement

} // namespace

double best_interval(double cost, double failure_interval)
{
    if (cost >= 2 * failure_interval)
        return failure_interval;
    const double share = cost / (2 * failure_interval);
    return std::sqrt(2 * cost * failure_interval) * (1 + std::sqrt(share) / 3 + share / 9) - cost;
}

void Schedule::measured(const Cost &cost)
{
    const double newest = known_ ? weight : 1;
    cost_.lost += newest * (cost.lost - cost_.lost);
    cost_.total += newest * (cost.total - cost_.total);
    most_.lost = std::max(most_.lost, cost.lost);
    most_.total = std::max(most_.total, cost.total);
    known_ = true;
}

void Schedule::flushed(double seconds)
{
    flush_ = std::max(flush_, seconds);
}

double Schedule::interval() const
{
    double chosen = settings_.interval_s;
    if (chosen == 0) {
        if (!known_)
            return first_s;
        const double failures =
            failure_interval_ > 0 ? failure_interval_ : settings_.failure_interval;
        chosen = std::max(shortest_s, best_interval(cost_.lost, failures) + cost_.lost);
    }
    if (known_ && settings_.max_overhead > 0)
        chosen = std::max(chosen, cost_.lost / (settings_.max_overhead / 100));
    return chosen;
}

double Schedule::pause(double took) const
{
    // After one that takes longer than the interval, pause for as long as it took.
    const double left = interval() - took;
    return left > 0 ? left : took;
}

double Schedule::reserve() const
{
    return known_ ? 2 * (most_.total + flush_) + margin_s : unknown_s;
}

} // namespace cryo::keeper
