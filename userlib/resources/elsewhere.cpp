// SPDX-License-Identifier: Apache-2.0
// Kinds that are saved by capture/files_*.cpp and opened by restore/open_*.cpp, and those that
// cannot be saved: only how they are recognised.
#include "resources/every_kind.hpp"

#include <sys/stat.h>

namespace cryo::resources {

namespace {

bool has_path(const Seen &seen)
{
    return seen.link.starts_with('/');
}

bool is_memfd(const Seen &seen)
{
    return seen.link.starts_with("/memfd:") && seen.link.ends_with(" (deleted)");
}

template <mode_t Type>
bool is_file(const Seen &seen)
{
    return has_path(seen) && (seen.status.st_mode & S_IFMT) == Type;
}

} // namespace

const Kind socket_kind = {
    .link = "socket:[",
    .is = [](const Seen &seen) { return S_ISSOCK(seen.status.st_mode) != 0; },
};
const Kind memfd_kind = {.link = "/memfd:", .is = is_memfd};
const Kind symlink_kind = {.is = is_file<S_IFLNK>};
const Kind directory_kind = {.is = is_file<S_IFDIR>};
const Kind block_device_kind = {.is = is_file<S_IFBLK>};
const Kind char_device_kind = {.is = is_file<S_IFCHR>};
const Kind regular_kind = {.is = has_path};
// Memory of the kernel's that has no descriptor.
const Kind shared_memory_kind = {.is = [](const Seen &) { return false; }};
const Kind other_kind = {.is = [](const Seen &) { return true; }, .has_own_file = true};

} // namespace cryo::resources
