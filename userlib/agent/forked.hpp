// SPDX-License-Identifier: Apache-2.0
//
// A forked child begins with a copy of its parent's agent: with the door, requesters, locks and
// threads of another process.
//
//     forget_parent();
//     open_control();
#pragma once

namespace cryo::agent {

// In a child, before its own agent begins. There is no door afterwards.
void forget_parent();

} // namespace cryo::agent
