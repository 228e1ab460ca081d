// SPDX-License-Identifier: Apache-2.0
//
// The collectives of one rank and its one-sided epochs: the clocks of its communicators, which
// tell how far it must run on before it may stop.
//
//     collectives.enter(comm);                   // MPI_Allreduce and all that block
//     int rc = real_allreduce(...);              // a signal here may call Rank::handle()
//     collectives.leave();
//
// Without a checkpoint the cost is a clock. Calls must not overlap, as those of Rank.
#pragma once

#include "bookmark/communicators.hpp"
#include "bookmark/phase.hpp"
#include "bookmark/reports.hpp"

namespace cryo::bookmark {

class Collectives
{
  public:
    // `phase`: the rank's.
    Collectives(const Phase &phase, Communicators &communicators, Reports &reports)
        : phase_(phase), communicators_(communicators), reports_(reports)
    {}
    Collectives(const Collectives &) = delete;
    Collectives &operator=(const Collectives &) = delete;

    // enter() before a blocking one and leave() after it; start() before a non-blocking one.
    // refused(), before leave(): the library rejected the arguments, so no collective took place.
    void enter(Comm &comm);
    void leave() { inside_--; }
    void start(Comm &comm);
    void refused(Comm &comm);
    // An epoch is open while it holds incomplete operations or a lock.
    void open_epoch() { epochs_++; }
    void close_epoch() { epochs_--; }

    // In a checkpoint: the rank must run on until its clocks have reached these.
    void run_to(std::span<const ClockEntry> targets);
    void forget_targets() { behind_ = 0; }

    bool let_stop() const { return inside_ == 0 && epochs_ == 0 && behind_ == 0; }
    bool is_behind() const { return behind_ > 0; }
    bool has_epoch() const { return epochs_ > 0; }
    bool is_inside() const { return inside_ != 0; }
    CommId inside_comm() const { return inside_comm_; }

  private:
    const Phase &phase_;
    Communicators &communicators_;
    Reports &reports_;
    std::atomic<uint32_t> inside_{0}; // blocking collectives being executed
    std::atomic<uint32_t> epochs_{0};
    CommId inside_comm_ = 0; // for status reports
    uint32_t behind_ = 0;    // communicators whose clock is below its target
};

} // namespace cryo::bookmark
