// SPDX-License-Identifier: Apache-2.0
//
// Makes images again that a snapshot's directory lacks (docs/stores.md): of the copies that nodes
// have in directories that are seen here, or, where a node is lost, of the others of its set.
//
//     std::vector<std::string> said;                   // what was done, and what was found damaged
//     Result<void> done = heal(store, snapshot, trust, Look::sizes, said);
#pragma once

#include "base/directory.hpp"
#include "base/result.hpp"
#include "base/trust.hpp"
#include "coord/snapshot.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace cryo::coord {

enum class Look : uint8_t {
    sizes,    // an image is whole that has its size
    contents, // all images, and all sets, are read and compared with their checksums: those of the
              // metadata, or else those in the images
};

// An image gets its name when it is what the metadata say. The error names what is missing and
// which nodes are lost; what could be made is there then. EACCES: the snapshot is another user's.
Result<void> heal(const SnapshotStore &store, const Snapshot &snapshot, const Trust &trust,
                  Look look, std::vector<std::string> &said);

// Why the directory of the snapshot's images, `all`, has no good one of it; none: it has.
std::optional<std::string> why_lacking(const Directory &all, const SnapshotImage &image, Look look);

} // namespace cryo::coord
