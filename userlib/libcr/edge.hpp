// SPDX-License-Identifier: Apache-2.0
//
// The connection between libcr.h's functions and the agent.
#pragma once

#include "agent/interface.hpp"

namespace cryo::libcr {

inline const agent::Interface &agent() // this process's agent
{
    return &agent::cryo_agent_interface != nullptr ? *agent::cryo_agent_interface
                                                   : agent::own_interface;
}

int fail(int error); // −1, and errno

inline int edge(int result) // −errno becomes −1 and errno
{
    return __builtin_expect(result >= 0, 1) ? result : fail(-result);
}

} // namespace cryo::libcr
