// SPDX-License-Identifier: Apache-2.0
//
// What concerns one process only, done for several at a time: while all stand still, each waits for
// the slowest and not for the sum.
//
//     Result<void> done = together(members.size(), [&](size_t i) { return members[i]->describe();
//     });
#pragma once

#include "base/result.hpp"

#include <cstddef>
#include <functional>

namespace cryo::capture {

// Calls `work` for each number below `count`, from several threads. The error is that of the lowest
// number that has one.
Result<void> together(size_t count, const std::function<Result<void>(size_t)> &work);

} // namespace cryo::capture
