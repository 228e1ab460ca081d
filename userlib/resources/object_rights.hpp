// SPDX-License-Identifier: Apache-2.0
//
// Gives a pipe or a socket the owner, group and mode that it had when it was saved. It has no name
// in a file system, but who may open it again (/dev/stdout, /proc/PID/fd/N) depends on them, and so
// does the user that the kernel names for a socket.
//
//     if (const std::string lost = give_object_rights(fd, file, trust, "a pipe"); !lost.empty())
//         opening.notice(lost);
#pragma once

#include "base/trust.hpp"
#include "image/records.hpp"

#include <string>
#include <string_view>

namespace cryo::resources {

// Returned is what this user may not give, for the user: empty, or a sentence.
std::string give_object_rights(int fd, const image::File &file, const Trust &trust,
                               std::string_view what);

} // namespace cryo::resources
