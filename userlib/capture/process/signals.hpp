// SPDX-License-Identifier: Apache-2.0
//
// Signal actions, pending signals and timers of a stopped program, as records.
//
//     if (Result<void> done = describe_signals(d, session, facts, actions); !done)
//         return done;
#pragma once

#include "capture/process/describe.hpp"

namespace cryo::capture {

// The threads must have been described before.
Result<void> describe_signals(Description &d, AgentSession &session,
                              const agent::ProcessFacts &facts, const Actions &actions);

// Adds the SIGCHLD for a child that will have ended successfully, unless one is pending already.
void add_end_of_child(Description &d, pid_t child);

} // namespace cryo::capture
