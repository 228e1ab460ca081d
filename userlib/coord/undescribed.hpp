// SPDX-License-Identifier: Apache-2.0
//
// Ranks of a counted snapshot that have lost their own metadata, which alone say which image is
// theirs (Snapshot::counted).
//
//     Snapshot snapshot = store.with_ranks(*store.latest());
//     find_undescribed(*all, snapshot);     // these have their images then, if that is certain
#pragma once

#include "base/directory.hpp"
#include "coord/snapshot.hpp"

namespace cryo::coord {

// The only image in such a rank's directory is taken for the rank's, if the images of all ranks
// have together the size that the snapshot's metadata say; else nothing is changed. Of the node
// nothing is known: that of a rank beside it decides only where the rank is placed.
void find_undescribed(const Directory &all, Snapshot &snapshot);

} // namespace cryo::coord
