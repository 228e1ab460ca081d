// SPDX-License-Identifier: Apache-2.0
//
// Makes a directory of images fit into a number of bytes. As for the keeper (keeper/series.hpp),
// the newest images stay, and what those need. Of each program the newest image that is good stays
// whatever it takes, and whatever is no whole image of the caller's in a file of its own.
//
//     const Result<Pruned> done = prune("/scratch/run", 100 << 30, Removal::real,
//                                       [](const Stored &gone) { print("removed {}\n", gone.name);
//                                       });
//     if (done && done->bytes > 100 << 30) ...      // what stays takes more than that
#pragma once

#include "survey/shelf.hpp"

#include <functional>
#include <set>

namespace cryo::survey {

enum class Removal : uint8_t { real, imagined };

struct Pruned {
    size_t removed = 0;
    size_t left = 0;
    uint64_t freed = 0;
    uint64_t bytes = 0; // that are left
};

// `is_good`: its contents have been read and found whole. The positions in `shelf` of the images
// that go, in an order in which each goes before what it needs.
std::vector<size_t> surplus(const Shelf &shelf, uint64_t budget, uid_t owner,
                            const std::function<bool(const Stored &)> &is_good);

// `tell` is called after each removal; without any in Removal::imagined. EBUSY: a keeper works
// there. EACCES: another user may change the directory.
Result<Pruned> prune(const std::string &directory, uint64_t budget, Removal removal,
                     const std::function<void(const Stored &)> &tell);

} // namespace cryo::survey
