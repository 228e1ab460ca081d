// SPDX-License-Identifier: Apache-2.0
//
// Puts files into a store, and commits them by the manifest. Whatever ends a push, the place has
// the old contents, or nothing, or the new ones; and the next push of the same files sends what is
// missing.
//
//     Result<Pushed> done = push(contents, place, settings, {});
#pragma once

#include "base/result.hpp"
#include "store/manifest.hpp"
#include "store/upload.hpp"

#include <functional>
#include <string>
#include <vector>

namespace cryo::store {

struct MoveOptions {
    std::chrono::seconds patience{60};
    uint64_t rate = 0; // bytes a second, of all connections together; 0: no limit
    unsigned connections = 4;
    uint64_t part_size = usual_part_size;
    std::function<void(uint64_t done, uint64_t total)> progress = {}; // one call at a time
};

struct Pushed {
    Manifest manifest = {};
    uint64_t sent = 0; // bytes; the others were there
    std::vector<std::string> notices = {};
};

Result<Pushed> push(const Contents &contents, const Location &place, const Settings &settings,
                    const MoveOptions &options);

} // namespace cryo::store
