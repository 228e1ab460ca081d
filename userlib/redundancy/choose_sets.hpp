// SPDX-License-Identifier: Apache-2.0
//
// Which nodes make a set, so that what fails together is in different sets.
//
//     Result<Sets> sets = choose_sets({"north", "north", "south", "south"}, 4, scheme);
//     sets->members[0]        // numbers of nodes
//     sets->most_of_a_rack    // 1: no set has two nodes of a rack
#pragma once

#include "base/result.hpp"
#include "redundancy/scheme.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace cryo::redundancy {

struct Sets {
    std::vector<std::vector<uint32_t>> members; // numbers of nodes, ascending
    uint32_t most_of_a_rack = 1;
    // What users have to know, or empty: sets that are larger than wanted, or that have more nodes
    // of a rack than may be lost.
    std::vector<std::string> remarks;
};

// `racks` has the rack of each node; without a file that names racks, it is the node's own name. A
// set has at most `most` nodes. There are as few sets as possible, for large ones need the least
// space, but as many as it takes that none has two nodes of a rack; if that cannot be, then none
// more than may be lost. Their sizes differ by one at most. EINVAL: there are too few nodes for a
// set.
Result<Sets> choose_sets(const std::vector<std::string> &racks, uint32_t most,
                         const Scheme &scheme);

} // namespace cryo::redundancy
