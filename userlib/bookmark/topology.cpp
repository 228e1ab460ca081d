// SPDX-License-Identifier: Apache-2.0
#include "bookmark/topology.hpp"

#include <algorithm>

namespace cryo::bookmark {

uint32_t Routes::child_of(WorldRank rank) const
{
    auto after = std::upper_bound(runs.begin(), runs.end(), rank,
                                  [](WorldRank r, const Run &run) { return r < run.first; });
    if (after == runs.begin() || std::prev(after)->last < rank)
        return kElsewhere;
    return std::prev(after)->child;
}

Topology::Topology(std::vector<std::vector<WorldRank>> ranks_of, uint32_t fanout,
                   uint32_t root_fanout)
    : ranks_of_(std::move(ranks_of)), nodes_(ranks_of_.size())
{
    // The descendants of each daemon are split into `fanout` runs of nearly equal length.
    std::vector<uint32_t> hops(nodes_.size(), 0);
    if (!nodes_.empty())
        nodes_[0].end = daemons();
    for (uint32_t d = 0; d < daemons(); d++) {
        uint32_t begin = d + 1;
        uint32_t rest = nodes_[d].end - begin;
        uint32_t most = d == 0 ? std::min(fanout, root_fanout) : fanout;
        uint32_t parts = std::min(rest, std::max(most, 2U));
        for (uint32_t i = 0; i < parts; i++) {
            uint32_t child = begin + uint32_t(uint64_t(rest) * i / parts);
            nodes_[child].parent = d;
            nodes_[child].end = begin + uint32_t(uint64_t(rest) * (i + 1) / parts);
            nodes_[d].children.push_back(child);
            hops[child] = hops[d] + 1;
        }
        depth_ = std::max(depth_, hops[d] + 1);
    }
}

Routes Topology::routes(uint32_t daemon) const
{
    Routes routes;
    struct Leaf {
        WorldRank rank;
        uint32_t child;
    };
    std::vector<Leaf> leaves;
    for (uint32_t child : nodes_[daemon].children) {
        for (uint32_t d = child; d < nodes_[child].end; d++)
            for (WorldRank r : ranks_of_[d])
                leaves.push_back({r, routes.children});
        routes.children++;
        routes.is_rank.push_back(false);
    }
    for (WorldRank r : ranks_of_[daemon]) {
        leaves.push_back({r, routes.children++});
        routes.is_rank.push_back(true);
    }
    std::sort(leaves.begin(), leaves.end(),
              [](const Leaf &a, const Leaf &b) { return a.rank < b.rank; });
    for (const Leaf &leaf : leaves) {
        if (!routes.runs.empty() && routes.runs.back().child == leaf.child &&
            routes.runs.back().last + 1 == leaf.rank)
            routes.runs.back().last = leaf.rank;
        else
            routes.runs.push_back({leaf.rank, leaf.rank, leaf.child});
    }
    return routes;
}

} // namespace cryo::bookmark
