// SPDX-License-Identifier: Apache-2.0
//
// Which node each rank of a restarted job gets, where nodes are to have unequal shares of them
// (ompi-restart --weights). Nothing here does input or output.
//
//     Result<std::vector<Weight>> weights = parse_weights("a=7,b=3", "--weights");
//     Result<Placement> found = place_ranks(nodes_before, *weights, Order::any);
//     found->node_of[4]                        // index of rank 4's node in the weights
//
// A node gets ranks * weight / sum of weights, rounded by the largest remainder: all shares are
// rounded down, and the ranks that are left go, one each, to the nodes whose shares have lost most
// by that; of equal ones to those that were named first. A rank stays on the node where its image
// is as long as that has room, so no other placement with these shares moves fewer images.
#pragma once

#include "base/result.hpp"

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace cryo::coord {

// With weights_by_rank(), for the ranks of a restarted job (mpi/wrap/placement.cpp).
constexpr char weights_variable[] = "CRYO_WEIGHTS";

struct Weight {
    std::string node;
    uint64_t weight = 0;
};

// "a=7,b=3", or one on each line; '#' begins a comment. `source` is what errors name.
Result<std::vector<Weight>> parse_weights(std::string_view text, const std::string &source);
Result<std::vector<Weight>> read_weights(const std::string &path);

// How many of the ranks each node gets. EINVAL: a node gets none.
Result<std::vector<size_t>> shares_of(const std::vector<Weight> &weights, size_t ranks);

// Finds nodes by the names that daemons give them, which may have a domain that the user leaves
// out, or the other way round, and a number behind a slash.
class NodeNames
{
  public:
    explicit NodeNames(const std::vector<Weight> &weights);
    static constexpr size_t none = SIZE_MAX;
    size_t find(std::string_view name) const; // index of the weight; none: it is no such node

  private:
    struct Known {
        std::string name;
        size_t index;
    };
    size_t among(const std::vector<Known> &known, std::string_view name) const;

    std::vector<Known> names_;  // sorted
    std::vector<Known> shorts_; // of those with a domain, sorted
};

enum class Order : uint8_t {
    any,    // ranks of a node may have any numbers
    blocks, // they follow one another, as some launchers want it: more images may have to move
};

struct Placement {
    std::vector<Weight> weights;
    std::vector<size_t> shares;  // of each node
    std::vector<size_t> node_of; // of each rank: an index
    size_t moves = 0;            // ranks that get another node than they had
    bool in_blocks = false;      // in the order of the weights
};

// `before`: the node of each rank. With Order::any they are in blocks, too, if that moves no more
// images.
Result<Placement> place_ranks(const std::vector<std::string> &before,
                              const std::vector<Weight> &weights, Order order);

// "0=7,5=3": the lowest rank of each node, and the node's weight. Ranks do not know by which names
// the user calls their nodes.
std::string weights_by_rank(const Placement &placement);

} // namespace cryo::coord
