// SPDX-License-Identifier: Apache-2.0
//
// Whether a process has a door (agent_door.hpp), for those who do not want to go through it.
#pragma once

#include "look/proc.hpp"

namespace cryo::capture {

bool has_open_door(const Proc &proc);

} // namespace cryo::capture
