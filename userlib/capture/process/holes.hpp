// SPDX-License-Identifier: Apache-2.0
//
// Untouched shared memory: reading it would allocate its pages in the program.
#pragma once

#include "capture/process/describe.hpp"
#include "capture/session/session.hpp"

namespace cryo::capture {

// Reduces the parts to pages that exist, for memory that belongs to no file. All pages are kept if
// that is unknown: something is in swap, where mincore does not see it, or the agent is of an
// earlier release.
Result<void> leave_out_holes(AgentSession &session, std::vector<SharedPart> &parts);

// True if none of the areas in this text of /proc/swaps is in use.
bool is_swap_unused(std::string_view swaps);

} // namespace cryo::capture
