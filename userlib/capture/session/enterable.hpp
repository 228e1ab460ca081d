// SPDX-License-Identifier: Apache-2.0
//
// Whether a process can have an agent, and why it has none.
#pragma once

#include "look/proc.hpp"

namespace cryo::capture {

// Refuses processes in which the agent's handler could not work or would be killed (seccomp's
// strict mode); they are not touched.
Result<void> check_enterable(const Proc &proc);

// Judged by the environment that its program was executed with.
bool was_run_by_cr_run(const Proc &proc);

// Why a process does not listen: a process made by another call than fork(2) has no agent.
Error not_listening(pid_t pid);

// Why a process does not catch the checkpoint signal.
Error not_hearing(const Proc &proc, int signal);

} // namespace cryo::capture
