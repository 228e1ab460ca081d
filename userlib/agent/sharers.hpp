// SPDX-License-Identifier: Apache-2.0
//
// Children of clone(2) that have this process's descriptors (CLONE_FILES), and no agent of their
// own: what such a child closes is closed here, too. A child of vfork has our memory, but
// descriptors of its own.
//
//     note_sharer(false);                    // in the child, first of all
//     if (has_our_descriptors()) ...         // in whatever process: the agent's are open here
#pragma once

namespace cryo::agent {

// `has_own_memory`: a change that it makes there is not seen by the agent.
void note_sharer(bool has_own_memory);
void forget_sharers(); // in a forked child, which has none

// Whether the calling process is the agent's, or has its descriptors.
bool has_our_descriptors();
// Whether it can tell the agent that one of these has another number now.
bool has_our_memory();

} // namespace cryo::agent
