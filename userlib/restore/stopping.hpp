// SPDX-License-Identifier: Apache-2.0
//
// Stops a process that was saved as stopped, and waits until it is.
//
//     Result<int> stopped = stop_process(pid, SIGTSTP);
//     if (!stopped)
//         return stopped.error().within(image.name());
//     if (*stopped != SIGTSTP)
//         notices.push_back(about_other_stop(pid, SIGTSTP));
#pragma once

#include "base/result.hpp"

#include <string>
#include <sys/types.h>

namespace cryo::restore {

// The signal that has done it: this one, whose action is the default and which its first thread
// alone does not block; or SIGSTOP, where the kernel ignores it. No failure if another process has
// continued it in the meantime. ETIMEDOUT after five seconds.
Result<int> stop_process(pid_t pid, int signal);

// For the user: it was not this signal.
std::string about_other_stop(pid_t pid, int signal);

} // namespace cryo::restore
