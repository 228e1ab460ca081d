// SPDX-License-Identifier: Apache-2.0
//
// What a process has apart from its surroundings, and a restored one would not have: namespaces,
// and what one of its threads does not share with the others.
#pragma once

#include "look/proc.hpp"

#include <optional>
#include <string>

namespace cryo::capture {

// A network, host name or other namespace that neither this process nor the parent is in; nothing:
// none. The surroundings may have put a child of init into any. Mounts are not looked at, as files
// are found by their names.
std::optional<std::string> own_namespace(const Proc &proc);

// Which table of its own the thread has (descriptors; or working directory, root and umask), after
// unshare(2). Nothing: none, or the system restricts kcmp(2).
std::optional<std::string> own_table(pid_t pid, int tid);

} // namespace cryo::capture
