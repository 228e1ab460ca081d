// SPDX-License-Identifier: Apache-2.0
//
// Unequal shares of nodes in the ranks: what --weights asks for, as a launcher understands it.
//
//     Result<std::optional<Placement>> shares = shares_for(snapshot, options, launcher);
//     words = placing_words(launcher, **shares);
#pragma once

#include "options.hpp"

#include "base/result.hpp"
#include "coord/placement.hpp"
#include "coord/snapshot.hpp"

#include <optional>
#include <string>
#include <vector>

// None: nobody has asked for it. EINVAL: weights that cannot be used, or another option that says
// where ranks go. EOPNOTSUPP: weights or hosts, which the launcher does not take.
cryo::Result<std::optional<cryo::coord::Placement>>
shares_for(const cryo::coord::Snapshot &snapshot, const Options &options,
           const std::string &launcher);

// The launcher's options for it.
std::vector<std::string> placing_words(const std::string &launcher,
                                       const cryo::coord::Placement &placement);

// For one process on this node.
std::vector<std::string> words_for_one(const std::string &launcher, const std::string &node);

// Prints which rank gets which node, and which images move.
void show_placement(const cryo::coord::Snapshot &snapshot, const cryo::coord::Placement &placement,
                    bool as_json);
