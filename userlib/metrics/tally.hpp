// SPDX-License-Identifier: Apache-2.0
//
// Counts what processes announce through the kernel module (events/listener.hpp): also checkpoints
// and restarts that nobody has asked to tell Prometheus of.
//
//     Tally tally;
//     tally.count(event);
//     tally.add(text, true);
#pragma once

#include "events/listener.hpp"
#include "metrics/exposition.hpp"

namespace cryo::metrics {

class Tally
{
  public:
    void count(const Event &event);
    // Events came faster than they were read.
    void lost() { losses_++; }

    // `hears`: further events would be heard.
    void add(Exposition &text, bool hears) const;

  private:
    double checkpoints_ = 0;
    double checkpoint_failures_ = 0;
    double restarts_ = 0;
    double restart_failures_ = 0;
    double bytes_ = 0;
    double losses_ = 0;
    double unknown_ = 0;
};

} // namespace cryo::metrics
