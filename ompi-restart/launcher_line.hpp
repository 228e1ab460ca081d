// SPDX-License-Identifier: Apache-2.0
//
// The launcher's command line for a restart.
//
//     std::vector<std::string> words = launcher_line(store, snapshot, options, nullptr);
#pragma once

#include "options.hpp"

#include "base/result.hpp"
#include "coord/placement.hpp"
#include "coord/snapshot.hpp"

#include <string>
#include <vector>

std::string launcher_of(const cryo::coord::Snapshot &snapshot, const Options &options);

// `placement`: where the ranks go, if ompi-restart decides that; else null.
std::vector<std::string> launcher_line(const cryo::coord::SnapshotStore &store,
                                       const cryo::coord::Snapshot &snapshot,
                                       const Options &options,
                                       const cryo::coord::Placement *placement);

// For one `ompi-restart --bring` on this node.
std::vector<std::string> bringing_line(const cryo::coord::SnapshotStore &store,
                                       const cryo::coord::Snapshot &snapshot,
                                       const Options &options, const std::string &node);

// A file with one line for each rank, as Open MPI's own command wrote it: its name.
cryo::Result<std::string> write_appfile(const cryo::coord::SnapshotStore &store,
                                        const cryo::coord::Snapshot &snapshot,
                                        const Options &options);

// As a shell would split them, but for variables: quotes and backslashes.
std::vector<std::string> split_words(const std::string &text);
