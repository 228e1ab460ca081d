// SPDX-License-Identifier: Apache-2.0
//
// Gives up the checkpoint signal for a program that uses it itself:
//
//     if (number == state.signal && leave_signal(used))
//         ... Cryo now uses another signal; this one has its default action
//
// `used`: a mask of signals that Cryo must not take instead.
#pragma once

#include "agent/agent.hpp"

namespace cryo::agent {

// False: the signal stays; no other is unused, or it cannot be changed now.
bool leave_signal(uint64_t used);

} // namespace cryo::agent
