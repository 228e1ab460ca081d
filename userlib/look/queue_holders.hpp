// SPDX-License-Identifier: Apache-2.0
//
// Finds processes that have a POSIX message queue open, as far as /proc shows them to us.
//
//     struct stat queue;
//     fstat(fd, &queue);
//     const pid_t other = queue_holder(queue, {412, 413}); // except these and ourselves
#pragma once

#include <set>
#include <sys/stat.h>
#include <sys/types.h>

namespace cryo::capture {

// One such process; 0: none that we may see.
pid_t queue_holder(const struct stat &queue, const std::set<pid_t> &but = {});

} // namespace cryo::capture
