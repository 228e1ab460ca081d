// SPDX-License-Identifier: Apache-2.0
//
// For ranks without an MPI library: nothing is ever under way, so a checkpoint finds them settled.
#pragma once

#include "bookmark/mpi.hpp"

namespace cryo {

class StillMpi final : public bookmark::Mpi
{
  public:
    void post(bookmark::Receive &) override {}
    bool test(bookmark::Receive &, bookmark::Arrival &) override { return false; }
    bookmark::Withdrawal withdraw(bookmark::Receive &, bookmark::Arrival &) override
    {
        return bookmark::Withdrawal::withdrawn;
    }
    bool probe(bookmark::Comm &, int, int, bookmark::Arrival &) override { return false; }
    bool mprobe(bookmark::Comm &, int, int, bookmark::Matched &) override { return false; }
    void receive_matched(bookmark::Matched &, bookmark::Receive &) override {}
    bool take(bookmark::Comm &, bookmark::Drained &) override { return false; }
    void take_matched(bookmark::Matched &, bookmark::Drained &) override {}
    bool taken(bookmark::Drained &) override { return true; }
    void deliver(bookmark::Receive &, const bookmark::Drained &) override {}
    bool settled(bool /*at_cut*/) override { return true; }
};

} // namespace cryo
