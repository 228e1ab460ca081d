// SPDX-License-Identifier: Apache-2.0
//
// Reads all that is needed to bring a snapshot back, and compares it with the checksums in it.
//
//     const auto snapshot = Snapshot::open(path, {.find_base = ...});
//     Result<void> good = verify_needed(**snapshot);
#pragma once

#include "image/snapshot.hpp"

namespace cryo::image {

// Of a snapshot of which nothing was opened yet. EBADMSG: what is damaged, the first of it.
Result<void> verify_needed(const Snapshot &snapshot);

} // namespace cryo::image
