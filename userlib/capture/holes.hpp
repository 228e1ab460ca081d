// SPDX-License-Identifier: Apache-2.0
//
// Shared memory that was never touched: reading it would make it come into being, in the program.
#pragma once

#include "capture/describe.hpp"
#include "capture/session.hpp"

namespace cryo::capture {

// Of memory that is no file's, only what is there remains among the parts. Where that cannot be
// known (something is in swap, where mincore does not see it; an agent of an earlier release), all
// of it does.
Result<void> leave_out_holes(AgentSession &session, std::vector<SharedPart> &parts);

// That none of the areas in this text of /proc/swaps has anything in it.
bool is_swap_unused(std::string_view swaps);

} // namespace cryo::capture
