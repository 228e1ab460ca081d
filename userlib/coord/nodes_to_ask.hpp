// SPDX-License-Identifier: Apache-2.0
//
// Nodes that have to bring what they have in their own directories (node_copies.hpp) before a
// restart: those of images that the snapshot's directory lacks, as far as their directories are
// not seen here.
//
//     Result<std::vector<std::string>> nodes = nodes_to_ask(store, snapshot, trust, Whom::owners);
#pragma once

#include "base/result.hpp"
#include "base/trust.hpp"
#include "coord/snapshot.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace cryo::coord {

enum class Whom : uint8_t {
    owners, // the nodes of these images
    sets,   // the others of their sets, too, of whose files a lost node's are made
};

// Each node once, as hosts are named. EACCES: the snapshot is another user's, so nothing can be
// brought there.
Result<std::vector<std::string>> nodes_to_ask(const SnapshotStore &store, const Snapshot &snapshot,
                                              const Trust &trust, Whom whom);

// Bytes that have been brought so far: whether somebody is at work.
uint64_t bytes_brought(const SnapshotStore &store, const Snapshot &snapshot);

} // namespace cryo::coord
