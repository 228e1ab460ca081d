// SPDX-License-Identifier: Apache-2.0
//
// Random MPI programs that cannot deadlock: one sequence of events is drawn, in which every message
// is sent before it is waited for and all members of a collective enter it together; a rank's
// program is the part of the sequence that concerns it. Every order in which the ranks then run
// leads to the same digests.
#pragma once

#include <string>
#include <vector>

#include "net.hpp"

namespace cryo::bookmark::sim {

enum class Do : uint8_t {
    send,        // blocking
    isend,       // into slot
    wait_send,   // slot
    recv,        // blocking
    irecv,       // into slot
    wait_recv,   // slot; `polls`: by MPI_Test, with other work in between
    probe_recv,  // probe, then receive exactly that message
    mprobe,      // into slot
    mrecv,       // slot
    cancel,      // slot: nothing can have matched
    cancel_recv, // slot: if it could be cancelled, receive again
    collective,  // blocking
    refused,     // a blocking collective that the library refuses here, for its arguments
    icollective, // into slot
    wait_collective,
    make_comms, // collective on `comm`; `made` are the new ones
    free_comm,
    compute, // for `steps`; `deaf`: the request is not noticed before it ends
    open_epoch,
    close_epoch,
    ckpt, // MPI_Ckpt
};

struct Op {
    Do kind;
    int comm = 0;
    WorldRank peer = 0; // of a send or a receive
    bool any_source = false;
    bool any_tag = false;
    int tag = 0;
    uint64_t bytes = 8;
    uint64_t capacity = 1 << 20;
    bool rendezvous = false;
    bool polls = false;
    bool unordered = false; // which message comes depends on timing: the digest adds them up
    int slot = -1;
    Collective how = Collective::barrier;
    std::vector<int> made = {};
    int steps = 0;
    bool deaf = false;
};

struct CommPlan {
    std::vector<WorldRank> group;
    std::vector<WorldRank> remote; // of an inter-communicator

    const std::vector<WorldRank> &peers(WorldRank of) const;
    uint32_t members() const { return uint32_t(group.size() + remote.size()); }
    bool has(WorldRank rank) const;
    std::vector<WorldRank> all() const;
};
int index_of(const std::vector<WorldRank> &group, WorldRank rank);

struct Program {
    std::vector<std::vector<Op>> ranks;
    std::vector<CommPlan> comms; // 0 is the world
};

// `asks`: with calls of MPI_Ckpt; `straddles`: messages and collectives may cross them.
Program draw_program(uint64_t seed, uint32_t ranks, int events, bool asks = false,
                     bool straddles = false);

} // namespace cryo::bookmark::sim
