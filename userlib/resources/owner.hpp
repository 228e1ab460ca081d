// SPDX-License-Identifier: Apache-2.0
//
// The receiver of an open file's signals, which open files of every kind may have: F_SETOWN,
// F_SETSIG, O_ASYNC.
//
//     Result<void> done = save_owner(saving, seen, record);
//     notices = set_owners(opening, {.pid = 412, .ids_restored = true, .done_by_owners = {}});
#pragma once

#include "resources/opening.hpp"
#include "resources/saving.hpp"

#include <set>

namespace cryo::resources {

Result<void> save_owner(Saving &saving, const Seen &seen, image::OpenFile &record);

// A process that has open files, and the ids of those that own these.
struct OwnerIds {
    uint32_t pid;                             // its saved one
    bool ids_restored;                        // all processes have their saved ids
    const std::set<uint32_t> &done_by_owners; // open files that processes have that own them
};
// Plans it for the process. What is returned are notices for the user.
std::vector<std::string> set_owners(Opening &opening, const OwnerIds &ids);

} // namespace cryo::resources
