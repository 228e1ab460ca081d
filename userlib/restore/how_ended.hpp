// SPDX-License-Identifier: Apache-2.0
//
// For messages: how a process came to its end that was to do something else. It is not waited for:
// whoever does that still finds its status.
//
//     how_ended(pid);      // "it was killed by signal 9 (Killed)", "it exited with status 3"
//     status_of_end(pid);  // as wait() would tell it
#pragma once

#include <optional>
#include <string>
#include <sys/types.h>

namespace cryo::restore {

// A process that has begun to end, of any parent. Empty where that is not to be known.
std::optional<int> status_of_end(pid_t pid);
std::string how_ended(pid_t pid);

} // namespace cryo::restore
