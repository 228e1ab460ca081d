// SPDX-License-Identifier: Apache-2.0
//
// Sockets and FIFOs that a program got from whoever started it.
//
//     const std::set<std::string> inherited = inherited_files(look);
//     if (inherited.contains(inherited_name(seen.status))) ...
#pragma once

#include "capture/files/descriptor_look.hpp"

#include <set>
#include <string>

namespace cryo::capture {

// Connections and FIFOs that each process having them got from whoever started its cr_run, by their
// names (inherited.hpp): they are not the program's own and mostly useless to it. A connection made
// by a member and passed to a cr_run of its own appears only in the note of that cr_run, so it is
// not among them.
std::set<std::string> inherited_files(const DescriptorLook &look);

} // namespace cryo::capture
