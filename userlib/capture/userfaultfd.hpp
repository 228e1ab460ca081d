// SPDX-License-Identifier: Apache-2.0
//
// What trackers do with the userfaultfd that the program's agent keeps (capture/tracker.hpp).
#pragma once

#include "base/fd.hpp"
#include "capture/pages.hpp"
#include "capture/runs.hpp"

namespace cryo::capture {

bool kernel_is_at_least(unsigned major, unsigned minor);

// Registering is refused where somebody else has done it, and changes nothing where we have.
bool is_watched_by(const Fd &userfaultfd, const Run &mapping);
// Whether the mapping at this address is registered with a userfaultfd, ours or not. False where
// its first page is protected, by another userfaultfd: ours only registers.
bool is_registered(const Fd &userfaultfd, const PageMap &map, uint64_t address);

} // namespace cryo::capture
