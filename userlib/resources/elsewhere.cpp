// SPDX-License-Identifier: Apache-2.0
// How sockets are recognised, which have a folder of their own (socket/), and what no descriptor
// leads to.
#include "resources/every_kind.hpp"

#include <sys/stat.h>

namespace cryo::resources {

const Kind socket_kind = {
    .link = "socket:[",
    .is = [](const Seen &seen) { return S_ISSOCK(seen.status.st_mode) != 0; },
};
// Memory of the kernel's that has no descriptor.
const Kind shared_memory_kind = {.is = [](const Seen &) { return false; }};

} // namespace cryo::resources
