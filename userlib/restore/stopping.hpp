// SPDX-License-Identifier: Apache-2.0
//
// Stops a process that was saved as stopped, and waits until it is.
//
//     if (Result<void> stopped = stop_process(pid); !stopped)
//         return stopped.error().within(image.name());
#pragma once

#include "base/result.hpp"

#include <sys/types.h>

namespace cryo::restore {

// No failure if another process has continued it in the meantime. ETIMEDOUT after five seconds.
Result<void> stop_process(pid_t pid);

} // namespace cryo::restore
