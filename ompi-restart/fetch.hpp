// SPDX-License-Identifier: Apache-2.0
//
// Nodes bring what they have of a snapshot: a launcher for each of them starts
// `ompi-restart --bring` there.
//
//     Result<std::vector<std::string>> nodes = nodes_to_ask(store, snapshot, trust, Whom::owners);
//     fetch(store, snapshot, options, *nodes);
#pragma once

#include "options.hpp"

#include "coord/snapshot.hpp"

#include <string>
#include <vector>

// Says which nodes have failed, as their launchers say why; a node that brings nothing for a minute
// is given up.
void fetch(const cryo::coord::SnapshotStore &store, const cryo::coord::Snapshot &snapshot,
           const Options &options, const std::vector<std::string> &nodes);
