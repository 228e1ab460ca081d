// SPDX-License-Identifier: Apache-2.0
//
// The ids of a program that was just killed stay taken until its processes
// have ended, and then until they are reaped by a parent or by init.
//
//     if (Result<void> free = await_free(pids); !free) ...   // names a pid that is still taken
#pragma once

#include "base/result.hpp"

#include <sys/types.h>
#include <vector>

namespace cryo::restore {

// Waits, for a limited time, while an id belongs to a process that has ended, or that
// must end because it was killed. A process that has taken its SIGKILL and begun to
// end looks alive for a moment: living processes are given `grace_ms` in all.
Result<void> await_free(const std::vector<pid_t> &pids, int patience_ms = 5000, int grace_ms = 100);

// Waits likewise, but for each id, and returns those that are still taken in the end.
std::vector<pid_t> await_most_free(std::vector<pid_t> pids, int patience_ms = 2000,
                                   int grace_ms = 100);

// The error for a pid that a living process has.
Error in_use(pid_t pid);

// Whether the process has ended, or is bound to end.
bool is_ending(pid_t pid);
// Whether it will soon use nothing: ending, gone, or a frozen copy that an image is written from.
bool is_passing(pid_t pid);

} // namespace cryo::restore
