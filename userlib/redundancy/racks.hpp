// SPDX-License-Identifier: Apache-2.0
//
// The file that says which nodes may fail together (TOML): those of a rack, a switch, a power
// supply.
//
//     [racks]
//     north = ["n1", "n2"]
//     south = ["n3", "n4"]
//
//     Result<Racks> racks = read_racks("racks.toml");
//     Result<std::vector<std::string>> of_nodes = racks_of({"n1", "n3"}, *racks);
#pragma once

#include "base/result.hpp"

#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace cryo::redundancy {

struct Racks {
    std::string file; // for messages
    std::map<std::string, std::string> of_node;
};

// EINVAL: what is wrong in the file, and in which line.
Result<Racks> read_racks(const std::string &path);
Result<Racks> parse_racks(std::string_view text, const std::string &path);

// The rack of each node. ENOENT: the file says nothing of a node.
Result<std::vector<std::string>> racks_of(const std::vector<std::string> &nodes,
                                          const Racks &racks);

} // namespace cryo::redundancy
