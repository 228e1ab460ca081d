// SPDX-License-Identifier: Apache-2.0
// How sockets are recognised, which have a folder of their own (socket/), and what cannot be saved.
#include "resources/every_kind.hpp"

#include <sys/stat.h>

namespace cryo::resources {

namespace {

std::string_view refused(const Seen &seen)
{
    if (seen.link == "anon_inode:[io_uring]")
        return "a ring, of which the kernel does not tell whether requests are under way,";
    if (seen.link == "anon_inode:[fanotify]")
        return "a group whose events can only be taken, and may keep other processes waiting,";
    return "a kernel object,";
}

} // namespace

const Kind socket_kind = {
    .link = "socket:[",
    .is = [](const Seen &seen) { return S_ISSOCK(seen.status.st_mode) != 0; },
};
// Memory of the kernel's that has no descriptor.
const Kind shared_memory_kind = {.is = [](const Seen &) { return false; }};
const Kind other_kind = {
    .is = [](const Seen &) { return true; },
    .has_own_file = true,
    .refused = refused,
};

} // namespace cryo::resources
