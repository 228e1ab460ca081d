// SPDX-License-Identifier: Apache-2.0
//
// Takes files out of a store. What differs from the manifest in a single bit is refused.
//
//     Result<Manifest> got = pull(manifest, place, "/scratch/run7", settings, {});
#pragma once

#include "base/directory.hpp"
#include "base/result.hpp"
#include "store/push.hpp"

#include <string>

namespace cryo::store {

// The directory, which is made, appears under its name when all is in it, synced. EEXIST: there is
// something already.
Result<void> pull(const Manifest &manifest, const Location &place, const std::string &directory,
                  const Settings &settings, const MoveOptions &options);

// Reads all, and keeps nothing.
Result<void> verify(const Manifest &manifest, const Location &place, const Settings &settings,
                    const MoveOptions &options);

} // namespace cryo::store
