// SPDX-License-Identifier: Apache-2.0
//
// When the next checkpoint is due. Times are seconds.
//
//     Schedule schedule(settings);
//     double pause = schedule.pause(0);            // before the first
//     schedule.measured({.lost = 0.02, .total = 1.4});
#pragma once

#include "keeper/settings.hpp"

namespace cryo::keeper {

// The measured cost of a checkpoint.
struct Cost {
    double lost = 0;  // of the program's time
    double total = 0; // until the image was on the disk
};

// The interval that minimizes the time for saving and for redoing lost work, when a checkpoint
// costs `cost` and there is a failure every `failure_interval` on average (Daly's estimate of
// higher order, of the time between the end of one and the beginning of the next).
double best_interval(double cost, double failure_interval);

class Schedule
{
  public:
    explicit Schedule(const Settings &settings) : settings_(settings) {}

    void measured(const Cost &cost);
    void flushed(double seconds);
    void set_failure_interval(double seconds) { failure_interval_ = seconds; }

    // From the beginning of one checkpoint to that of the next.
    double interval() const;
    // From the end of the last one, which took `took`, to the beginning of the next.
    double pause(double took) const;
    // How long before the deadline the last one begins.
    double reserve() const;

  private:
    const Settings &settings_;
    double failure_interval_ = 0;
    bool known_ = false;
    Cost cost_;        // weighted towards the newest
    Cost most_;        // the largest so far
    double flush_ = 0; // the longest
};

} // namespace cryo::keeper
