// SPDX-License-Identifier: Apache-2.0
//
// Each daemon's parent and children in the tree, and the child that leads to each rank. Daemons
// are numbered 0 to n-1; a subtree is a contiguous run of numbers whose first daemon is its root.
//
//     Topology t(ranks_of, 16);            // ranks_of[d]: world ranks on daemon d's node
//     t.parent(d), t.children(d)           // daemons
//     Routes r = t.routes(d);              // for Node: its children, daemons first, then ranks
#pragma once

#include <span>
#include <vector>

#include "bookmark/comm.hpp"

namespace cryo::bookmark {

// The children of one node: each leads to a set of ranks, stored as runs.
struct Routes {
    struct Run {
        WorldRank first;
        WorldRank last; // inclusive
        uint32_t child;
    };
    uint32_t children = 0;
    std::vector<bool> is_rank; // by child
    std::vector<Run> runs;     // ordered, not overlapping

    static constexpr uint32_t kElsewhere = uint32_t(-1);
    uint32_t child_of(WorldRank rank) const; // kElsewhere: the rank is not below this node
};

class Topology
{
  public:
    static constexpr uint32_t kNone = uint32_t(-1);

    // The root may have fewer daemons below it than the others have.
    Topology(std::vector<std::vector<WorldRank>> ranks_of, uint32_t fanout,
             uint32_t root_fanout = uint32_t(-1));

    uint32_t daemons() const { return uint32_t(ranks_of_.size()); }
    uint32_t parent(uint32_t daemon) const { return nodes_[daemon].parent; }
    std::span<const uint32_t> children(uint32_t daemon) const { return nodes_[daemon].children; }
    std::span<const WorldRank> ranks(uint32_t daemon) const { return ranks_of_[daemon]; }
    uint32_t nodes(uint32_t daemon) const // of the subtree, with its root
    {
        return nodes_[daemon].end - daemon;
    }
    uint32_t depth() const { return depth_; } // hops between root and the farthest rank
    Routes routes(uint32_t daemon) const;

  private:
    struct Place {
        uint32_t parent = kNone;
        uint32_t end = 0; // the subtree is [this daemon, end)
        std::vector<uint32_t> children = {};
    };
    std::vector<std::vector<WorldRank>> ranks_of_;
    std::vector<Place> nodes_;
    uint32_t depth_ = 0;
};

} // namespace cryo::bookmark
