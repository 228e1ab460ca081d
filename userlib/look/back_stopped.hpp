// SPDX-License-Identifier: Apache-2.0
//
// A process that was saved as stopped is brought back as a stopped one. Until it is continued, it
// has yet to execute the last of the restart's plan, and has the plan open.
#pragma once

#include "look/proc.hpp"

namespace cryo::capture {

constexpr const char *plan_name = "cryo plan"; // of the memory file with the plan

// False for a process that the caller may not inspect.
bool has_come_back_stopped(const Proc &proc);

} // namespace cryo::capture
