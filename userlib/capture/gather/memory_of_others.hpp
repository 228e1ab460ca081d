// SPDX-License-Identifier: Apache-2.0
//
// Finds memory that an MPI rank shares with processes outside its image, such as other ranks, by
// other means than windows of MPI. If no name leads to it, each restart would make memory of its
// own, in which nothing of the others' appears.
//
//     refuse_memory_of_others(members, gathering.known()); // once all members are described
#pragma once

#include "capture/gather/everybody.hpp"

#include <set>
#include <sys/types.h>

namespace cryo::capture {

// Adds a problem to the members that have it. `known`: the processes in the image, and those left
// out. Other programs than ranks are not looked at: it means reading about all processes in the
// stop.
void refuse_memory_of_others(const Members &members, const std::set<pid_t> &known);

} // namespace cryo::capture
