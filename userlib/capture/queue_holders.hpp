// SPDX-License-Identifier: Apache-2.0
//
// Who has a POSIX message queue open, as far as /proc shows it to us.
//
//     struct stat queue;
//     fstat(fd, &queue);
//     const pid_t other = queue_holder(queue, {412, 413}); // besides these and ourselves
#pragma once

#include <set>
#include <sys/stat.h>
#include <sys/types.h>

namespace cryo::capture {

// One of them; 0: there is none that we may see.
pid_t queue_holder(const struct stat &queue, const std::set<pid_t> &but = {});

} // namespace cryo::capture
