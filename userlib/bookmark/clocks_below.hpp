// SPDX-License-Identifier: Apache-2.0
//
// What a node of the tree knows of communicators with members below it: how many collectives those
// have entered, through which children they are reached, and, at a communicator's home, which ranks
// wait for any of them.
//
//     clocks.hear(child, entry);              // of messages `clocks` and `raise`
//     clocks.find_homes(is_root, above.clocks, targets);  // when all children have told theirs
//     clocks.add_targets(comm, targets);      // who has to run on
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <unordered_map>
#include <vector>

#include "bookmark/wire.hpp"

namespace cryo::bookmark {

class ClocksBelow
{
  public:
    using Entries = std::pmr::vector<ClockEntry>;
    using Targets = std::map<uint32_t, Entries>; // child → clocks to be reached below it

    // `most`: communicators that there may be.
    explicit ClocksBelow(uint64_t most) : most_(most) {}

    // A child that makes communicators up would otherwise take all memory.
    bool has_room_for(std::span<const ClockEntry> entries) const;
    void hear(uint32_t child, const ClockEntry &entry);
    // This node computes the targets of communicators whose members are all below it; the root, of
    // all. What the parent has to know of others is added to `above`.
    void find_homes(bool is_root, Entries &above, Targets &targets);
    // As the parent tells.
    void raise(CommId comm, uint64_t high);
    // For each child that may have a member below the highest clock.
    void add_targets(CommId comm, Targets &targets) const;

    bool knows(CommId comm) const { return known_.contains(comm); }
    bool is_home(CommId comm) const;
    std::vector<uint32_t> children_of(CommId comm) const; // with members below

    // At home: messages `need` and `unneed` of ranks that wait for any member.
    void note_need(MessageType type, const Need &need);
    std::vector<Need> needs(CommId comm) const;

    void clear() { known_.clear(); }

  private:
    struct Member { // a child with members of a communicator below it
        uint32_t child;
        uint64_t low;
    };
    struct Known {
        uint32_t members = 0;
        uint32_t heard = 0;
        uint64_t high = 0;
        bool home = false; // this node, not an ancestor, computes its targets
        std::vector<Member> below;
        std::map<WorldRank, Need> wanted;
    };
    static void add_targets(CommId comm, const Known &known, Targets &targets);
    const Known *find(CommId comm) const;

    uint64_t most_;
    std::unordered_map<CommId, Known> known_;
};

} // namespace cryo::bookmark
