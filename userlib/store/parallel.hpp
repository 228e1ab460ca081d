// SPDX-License-Identifier: Apache-2.0
//
// Does work that consists of parts in a few threads. The first error is the result, and begins no
// further part.
//
//     Result<void> done = parallel(parts, 4, ended, [&](unsigned worker, size_t part) { ... });
#pragma once

#include "base/result.hpp"

#include <atomic>
#include <cstddef>
#include <functional>

namespace cryo::store {

using PartOfWork = std::function<Result<void>(unsigned worker, size_t part)>;

// `ended` becomes true with the first error, for parts that wait for something.
Result<void> parallel(size_t parts, unsigned workers, std::atomic<bool> &ended,
                      const PartOfWork &work);

} // namespace cryo::store
