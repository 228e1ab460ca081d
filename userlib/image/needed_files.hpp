// SPDX-License-Identifier: Apache-2.0
//
// In which files the contents of an image are: its own, and those of the images that it is based
// on.
//
//     const NeededFiles needs = needed_files(**Snapshot::open(path, {.find_base = ...}));
//     if (needs.broken)
//         return *needs.broken;         // which of them is missing, or is another one
//     needs.files                       // the image's own first, then its base's, ...
#pragma once

#include "image/snapshot.hpp"

#include <functional>
#include <optional>
#include <sys/types.h>
#include <utility>
#include <vector>

namespace cryo::image {

using FileId = std::pair<dev_t, ino_t>;

struct NeededFiles {
    std::vector<FileId> files = {}; // each once; what could be found, if something is missing
    std::optional<Error> broken = {};
};

// `look` sees the image of each process.
using LookAtMember = std::function<void(const SnapshotMember &, Image &)>;
NeededFiles needed_files(const Snapshot &snapshot, const LookAtMember &look = {});

} // namespace cryo::image
