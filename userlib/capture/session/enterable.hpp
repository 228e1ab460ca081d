// SPDX-License-Identifier: Apache-2.0
//
// Whether a process can have an agent, and why it has none.
#pragma once

#include "look/proc.hpp"

#include <optional>
#include <string>
#include <string_view>

namespace cryo::capture {

// Refuses processes in which the agent's handler could not work or would be killed (seccomp's
// strict mode), and those that have other files than this one, as in a container; they are not
// touched.
Result<void> check_enterable(const Proc &proc);

// Why a thread with this `status` in /proc cannot be saved under its filters of system calls
// (seccomp), unless they can be read. Nothing: they are those of its process's surroundings, in
// which a restart finds their like, or there are none.
struct FilterObstacle {
    std::string what, way_out; // what: after "process 412 "
    bool is_readable = false;  // this caller may read them, and then they may be saved
};
std::optional<FilterObstacle> filter_obstacle(const Proc &proc, std::string_view status);
// Refuses those that this caller cannot read, or all (`readable`: false).
Result<void> check_filters(const Proc &proc, bool readable);

// Judged by the environment that its program was executed with.
bool was_run_by_cr_run(const Proc &proc);

// Why a process does not listen: a process made by another call than fork(2) has no agent.
Error not_listening(pid_t pid);

// Why a process does not catch the checkpoint signal.
Error not_hearing(const Proc &proc, int signal);

} // namespace cryo::capture
