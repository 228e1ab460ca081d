// SPDX-License-Identifier: Apache-2.0
//
// The reports of a restart's processes through their status pipes, and the meaning of a report that
// is missing.
#pragma once

#include <sys/types.h>

namespace cryo::restore {

// The pid that a copy of another process reports first; 0: it was not made.
pid_t read_birth(int status);

// Waits until there is something to read, or the other end is closed. False: neither, and the
// process has ended; children of a running program may hold the other end open.
bool says_more(int status, pid_t pid);

// Whether another process of the tree, which runs already, has killed it and so has seen
// it alive. Also true if it has been reaped, because its parent knows how it ended.
bool was_killed(pid_t pid);

} // namespace cryo::restore
