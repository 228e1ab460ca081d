// SPDX-License-Identifier: Apache-2.0
//
// The communicators of one rank, and its counts over all of them, of which those that no longer
// exist are kept.
//
//     Communicators communicators(Threads::one, memory);
//     Comm &comm = communicators.add(id, peer_count, peers, members);
//     communicators.drop(comm);                  // when the program frees it
//     communicators.forget_freed(receives);      // deletes what nothing refers to any more
//     communicators.sent_to(rank).messages       // over all, freed ones too
//
// Calls must not overlap; a communicator's own sent() and received() may.
#pragma once

#include <map>

#include "bookmark/receives.hpp"
#include "bookmark/wire.hpp"

namespace cryo::bookmark {

class Communicators
{
  public:
    Communicators(Threads threads, std::pmr::memory_resource *memory);
    Communicators(const Communicators &) = delete;
    Communicators &operator=(const Communicators &) = delete;

    Comm &add(CommId id, uint32_t peer_count, std::span<const WorldRank> peers, uint32_t members);
    // Null: it was freed, so no later collective on it exists.
    Comm *find(CommId id);
    void drop(Comm &comm);
    void forget_freed(const Receives &receives);
    // After a cut all members have freed them.
    void forget_gone() { gone_.clear(); }
    void forget_counts(); // after a restart: every rank's counts begin again at zero

    template <class Each>
    void for_each(const Each &each)
    {
        for (auto &[id, comm] : comms_)
            each(comm);
    }
    template <class Each>
    void for_each(const Each &each) const
    {
        for (const auto &[id, comm] : comms_)
            each(comm);
    }

    Tally sent_to(WorldRank rank) const;
    Tally received_from(WorldRank rank) const;
    Tally received() const;
    // One for each rank that was sent to, in the order of ranks.
    void add_sent(std::pmr::vector<CountEntry> &counts) const;
    // The clocks of all, which are the targets from now on.
    void begin_clocks(std::pmr::vector<ClockEntry> &clocks);
    uint64_t drained_messages() const;

  private:
    Threads threads_;
    std::pmr::memory_resource *memory_;
    std::pmr::map<CommId, Comm> comms_;
    struct Traffic {
        Tally sent, received;
    };
    std::pmr::map<WorldRank, Traffic> retired_; // traffic of communicators that no longer exist
    struct Gone {
        CommId id;
        uint64_t clock;
        uint32_t members;
    };
    // Freed here, with other members; only after a cut have they all freed them.
    std::pmr::vector<Gone> gone_;
    uint32_t lingering_ = 0; // freed communicators that are still referred to
};

} // namespace cryo::bookmark
