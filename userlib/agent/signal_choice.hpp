// SPDX-License-Identifier: Apache-2.0
//
// The program wants the checkpoint signal for itself:
//
//     if (number == state.signal && leave_signal(used))
//         ... it is as any other from now on: nobody has set anything for it
//
// `used`: signals that are not to be taken instead, bit by bit.
#pragma once

#include "agent/agent.hpp"

namespace cryo::agent {

// False: the program uses all others, too.
bool leave_signal(uint64_t used);

} // namespace cryo::agent
