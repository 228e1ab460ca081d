// SPDX-License-Identifier: Apache-2.0
//
// Operations of trackers on the userfaultfd kept by the program's agent
// (capture/memory/tracker.hpp).
#pragma once

#include "base/fd.hpp"
#include "base/remote_address.hpp"
#include "capture/memory/pages.hpp"
#include "look/runs.hpp"

namespace cryo::capture {

bool kernel_is_at_least(unsigned major, unsigned minor);

// Tries to register: that fails if another userfaultfd has it, and is a no-op if ours has.
bool is_watched_by(const Fd &userfaultfd, const Run &mapping);
// Whether the mapping at this address is registered with any userfaultfd, ours or not. False where
// its first page is protected, by another userfaultfd: ours only registers.
bool is_registered(const Fd &userfaultfd, const PageMap &map, RemoteAddress address);

} // namespace cryo::capture
