// SPDX-License-Identifier: Apache-2.0
//
// Looks whether the job has ranks on other nodes, and lets the first daemon listen on the network
// only then. What the launcher has started here shows whether it has; ranks that do not come, or of
// which nothing is known, are assumed to be elsewhere. Daemons there try for longer than that.
//
//     OtherNodes others(loop, job.launcher, local, ranks);
//     others.look_for_them();        // for each mpirun of a script
#pragma once

#include "coord/job_ranks.hpp"
#include "coord/loop.hpp"

#include <chrono>
#include <functional>
#include <optional>
#include <sys/types.h>

namespace cryo::coord {

class OtherNodes
{
  public:
    OtherNodes(Loop &loop, pid_t launcher, Daemon &local, JobRanks &ranks)
        : loop_(loop), launcher_(launcher), local_(local), ranks_(ranks)
    {}
    void look_for_them();
    std::function<void()> on_several; // the launcher has started ranks elsewhere

  private:
    using Clock = std::chrono::steady_clock;
    void look();

    Loop &loop_;
    pid_t launcher_;
    Daemon &local_;
    JobRanks &ranks_;
    Clock::time_point looked_from_;
    std::optional<Clock::time_point> first_rank_;
    bool looks_ = false;
};

} // namespace cryo::coord
