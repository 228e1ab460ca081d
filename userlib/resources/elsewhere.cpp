// SPDX-License-Identifier: Apache-2.0
// Kinds that are saved by capture/files_*.cpp and opened by restore/open_*.cpp, and those that
// cannot be saved: only how they are recognised.
#include "resources/every_kind.hpp"

#include <sys/stat.h>

namespace cryo::resources {

const Kind socket_kind = {
    .link = "socket:[",
    .is = [](const Seen &seen) { return S_ISSOCK(seen.status.st_mode) != 0; },
};
// Memory of the kernel's that has no descriptor.
const Kind shared_memory_kind = {.is = [](const Seen &) { return false; }};
const Kind other_kind = {
    .is = [](const Seen &) { return true; },
    .has_own_file = true,
    .refused = [](const Seen &) -> std::string_view { return "a kernel object,"; },
};

} // namespace cryo::resources
