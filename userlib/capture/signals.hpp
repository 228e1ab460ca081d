// SPDX-License-Identifier: Apache-2.0
//
// Signal actions, pending signals and timers of a stopped program, as records.
//
//     if (Result<void> done = describe_signals(d, session, facts, actions); !done)
//         return done;
#pragma once

#include "capture/describe.hpp"

namespace cryo::capture {

// The threads must have been described.
Result<void> describe_signals(Description &d, AgentSession &session,
                              const agent::ProcessFacts &facts, const Actions &actions);

} // namespace cryo::capture
