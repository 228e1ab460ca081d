// SPDX-License-Identifier: Apache-2.0
//
// What a process that was killed has left cannot be told from what a living one uses by its name:
// the kernel knows who has a file open.
//
//     if (flock(fd, LOCK_EX | LOCK_NB) == 0 && is_nobodys(fd) && is_named(fd, directory, name))
//         directory.remove(name);
#pragma once

#include "base/directory.hpp"

#include <string>

namespace cryo {

// Whether no other open file of this regular file of the caller's own is there, and no mapping: on
// this kernel, in whatever container. No where the file system does not tell (NFS).
bool is_nobodys(int fd);

// Whether the name still leads to what is open.
bool is_named(int fd, const Directory &directory, const std::string &name);

} // namespace cryo
