// SPDX-License-Identifier: Apache-2.0
//
// Locks and leases, which open files of every kind may have. The process that held one takes it
// again.
//
//     save_locks(saving, descriptor, open_file); // for each descriptor of each process
//     take_locks(opening, locks);                // once nothing is closed any more
#pragma once

#include "resources/opening.hpp"
#include "resources/saving.hpp"

namespace cryo::resources {

// `open_file`: what the descriptor is one of, with its record.
void save_locks(Saving &saving, const Seen &descriptor, const Seen &open_file);
// Plans it for a process that had these locks.
void take_locks(Opening &opening, const std::vector<image::Lock> &locks);
// A rehearsal cannot open a file on which there is a lease.
Result<void> refuse_leases(const Opening &opening, const std::vector<image::Lock> &locks);

} // namespace cryo::resources
