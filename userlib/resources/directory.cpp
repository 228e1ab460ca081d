// SPDX-License-Identifier: Apache-2.0
// Directories, and the position up to which one has been read.
#include "resources/every_kind.hpp"
#include "resources/paths.hpp"

#include <cerrno>
#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace cryo::resources {

namespace {

Result<void> save(Saving &saving, const Seen &seen)
{
    if (!is_named(seen) && (saving.file(seen).flags & image::kFileUnlinked) == 0)
        saving.refuse(seen, "something that its name does not lead to, " + seen.link,
                      "it was mounted over, or is in another namespace");
    return {};
}

Result<void> go_to_entry(int fd, const image::File &file, uint64_t position)
{
    // ext4 restores a directory position well only after the directory was read once.
    char entries[4096];
    if (syscall(SYS_getdents64, fd, entries, sizeof(entries)) < 0)
        return Error::from_errno("reading " + std::string(file.path), errno);
    return go_to(fd, file, position);
}

constexpr ByName by_name = {.flags = O_DIRECTORY, .go_to = go_to_entry};

} // namespace

const Kind directory_kind = {
    .is = is_file<S_IFDIR>,
    .save = save,
    .by_name = &by_name,
};

} // namespace cryo::resources
