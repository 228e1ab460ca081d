// SPDX-License-Identifier: Apache-2.0
//
// Describes, for messages, how a process ended that was expected to do something else. It is not
// reaped, so its parent can still collect its status.
//
//     how_ended(pid);      // "it was killed by signal 9 (Killed)", "it exited with status 3"
//     status_of_end(pid);  // as wait() would report it
#pragma once

#include <optional>
#include <string>
#include <sys/types.h>

namespace cryo::restore {

// For a process that has begun to end, not only a child. Empty if the status cannot be determined.
std::optional<int> status_of_end(pid_t pid);
std::string how_ended(pid_t pid);

} // namespace cryo::restore
