// SPDX-License-Identifier: Apache-2.0
//
// Where libcr.h's functions meet the agent.
#pragma once

#include "agent/interface.hpp"

namespace cryo::libcr {

const agent::Interface &agent(); // the one of this process

int edge(int result); // −errno becomes −1 and errno

} // namespace cryo::libcr
