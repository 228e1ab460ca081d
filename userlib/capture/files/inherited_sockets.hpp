// SPDX-License-Identifier: Apache-2.0
//
// Sockets that a program got from whoever started it.
//
//     const std::set<uint64_t> inherited = inherited_sockets(look);
//     if (inherited.contains(seen.status.st_ino)) ...
#pragma once

#include "capture/files/descriptor_look.hpp"

#include <cstdint>
#include <set>

namespace cryo::capture {

// Connections that each process having them got from whoever started its cr_run, by inode: they are
// not the program's own and mostly useless to it. A connection made by a member and passed to a
// cr_run of its own appears only in the note of that cr_run (inherited.hpp), so it is not among
// them.
std::set<uint64_t> inherited_sockets(const DescriptorLook &look);

} // namespace cryo::capture
