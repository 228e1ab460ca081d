// SPDX-License-Identifier: Apache-2.0
//
// The ids of a program that was killed a moment ago are taken until its processes are gone, and
// then until somebody has waited for them: a parent, or the first process of the system.
//
//     if (Result<void> free = await_free(pids); !free) ...   // names one that is not waited for
#pragma once

#include "base/result.hpp"

#include <sys/types.h>
#include <vector>

namespace cryo::restore {

// Waits, for a limited time, until none of the ids belongs to a process that has ended, or
// that must end because it was killed. One that has taken its SIGKILL and begun to end looks alive
// for a moment: the living are given `grace_ms` in all.
Result<void> await_free(const std::vector<pid_t> &pids, int patience_ms = 5000, int grace_ms = 100);

// A living process has it.
Error in_use(pid_t pid);

// It has ended, or can do nothing else.
bool is_ending(pid_t pid);
// It will use nothing soon: so, or gone, or a frozen copy that an image is written from.
bool is_passing(pid_t pid);

} // namespace cryo::restore
