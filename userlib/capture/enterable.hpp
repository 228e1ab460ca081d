// SPDX-License-Identifier: Apache-2.0
//
// Whether there can be an agent in a process, and why there is none.
#pragma once

#include "capture/proc.hpp"

#include <string>

namespace cryo::capture {

// Where the agent's handler could not do its work, or would not be let live (seccomp's strict
// mode): such a process is not touched.
Result<void> check_enterable(const Proc &proc);

// By the environment that its program was executed with.
bool was_run_by_cr_run(const Proc &proc);

// Of a process that does not listen: one that another call than fork(2) has made has no agent.
std::string why_deaf(pid_t pid);

// Of one that does not catch the checkpoint signal.
std::string why_outside(const Proc &proc, int signal);

} // namespace cryo::capture
