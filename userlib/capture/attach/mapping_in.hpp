// SPDX-License-Identifier: Apache-2.0
//
// Maps the agent's library into a program, as its loader would.
#pragma once

#include "capture/attach/agent_library.hpp"
#include "capture/attach/intrusion.hpp"

namespace cryo::capture {

// Closes the descriptor of a command that was killed while it mapped the library.
void close_left_open(Intrusion &inside, const AgentLibrary &library);
// Where it begins. After an error nothing of it is left there.
Result<RemoteAddress> map_library(Intrusion &inside, const AgentLibrary &library);
void unmap_library(Intrusion &inside, const AgentLibrary &library, RemoteAddress base);

} // namespace cryo::capture
