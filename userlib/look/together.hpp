// SPDX-License-Identifier: Apache-2.0
//
// Runs work that concerns one process each for several processes in parallel: while all are
// stopped, the wait is for the slowest one and not for the sum.
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

} // namespace cryo::capture
