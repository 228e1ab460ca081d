// SPDX-License-Identifier: Apache-2.0
//
// Runs work that concerns one process each for several processes in parallel, or one descriptor
// each for thousands: while all are stopped, the wait is for the slowest one and not for the sum.
//
//     Result<void> done = together(members.size(), [&](size_t i) { return members[i]->describe();
//     });
#pragma once

#include "base/result.hpp"

#include <cstddef>
#include <functional>

namespace cryo::capture {

// Calls `work` for each number below `count`, from several threads. Returns the error of the lowest
// number that failed.
Result<void> together(size_t count, const std::function<Result<void>(size_t)> &work);

// Likewise for much work of some microseconds each: a thread takes some hundred numbers at once.
Result<void> together_in_parts(size_t count, const std::function<Result<void>(size_t)> &work);

} // namespace cryo::capture
