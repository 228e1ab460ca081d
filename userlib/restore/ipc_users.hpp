// SPDX-License-Identifier: Apache-2.0
//
// Finds users of a System V object that still exists at a restart. The kernel shows little about
// processes that only wait or have waited; this file collects what it shows.
#pragma once

#include "base/patience.hpp"
#include "base/result.hpp"
#include "image/records.hpp"

namespace cryo::restore {

// Waits until the object has no users any more, if they
// are ending. EBUSY, naming the user, if one stays.
Result<void> await_unused(const image::Ipc &ipc, int patience_ms = release_limit_ms);

std::string name_of(const image::Ipc &ipc);

} // namespace cryo::restore
