// SPDX-License-Identifier: Apache-2.0
//
// Whether a process has a door (agent_door.hpp), for those who do not want to go through it.
#pragma once

#include "base/result.hpp"
#include "look/proc.hpp"

namespace cryo::capture {

bool has_open_door(const Proc &proc);
// Why a connection would be refused, as far as that is seen without making one.
Result<void> check_open_door(const Proc &proc);

} // namespace cryo::capture
