// SPDX-License-Identifier: Apache-2.0
//
// What nodes have of a snapshot, images and parity: each in its own directory, which may be seen
// here, or in the snapshot's, where it has brought them.
//
//     const NodeCopies copies(snapshot, trust, all);
//     Result<NearLevel> level = copies.of("n3"); // wherever it is
#pragma once

#include "base/directory.hpp"
#include "base/result.hpp"
#include "base/trust.hpp"
#include "coord/local_level.hpp"
#include "coord/snapshot.hpp"

#include <cstddef>
#include <string>
#include <vector>

namespace cryo::coord {

class NodeCopies
{
  public:
    // `all`: the directory of the snapshot's images (healing_place.hpp).
    NodeCopies(const Snapshot &snapshot, const Trust &trust, const Directory &all)
        : snapshot_(snapshot), trust_(trust), all_(all)
    {}
    // In the node's own directory. ENOENT: it is not seen here.
    Result<NearLevel> seen(const std::string &node) const;
    Result<NearLevel> brought(const std::string &node) const;
    // Either; an error is that of the node's own directory.
    Result<NearLevel> of(const std::string &node) const;
    // Of the nodes of a set but one; `missing` names those that are not there, and why.
    std::vector<NearLevel> of_set(const SnapshotSet &set, const std::string &but_for,
                                  std::vector<std::string> &missing) const;
    // Once all images are there.
    void remove_brought() const;

  private:
    const Snapshot &snapshot_;
    const Trust &trust_;
    const Directory &all_;
};

// Copies what this node has in its own directory, images and parity, to the snapshot's: a healing
// on another node, which does not see that directory, uses it, and removes it afterwards. The
// number of images; 0: the node had no ranks. An error names the first file that could not be
// copied; the others are there.
Result<size_t> bring(const SnapshotStore &store, const Snapshot &snapshot, const Trust &trust,
                     const std::string &node);

} // namespace cryo::coord
