// SPDX-License-Identifier: Apache-2.0
// Directories, and the position up to which one has been read. Requests to be told of changes
// (F_NOTIFY) are refused: the kernel shows none.
#include "resources/about_process.hpp"
#include "resources/every_kind.hpp"
#include "resources/paths.hpp"

#include <cerrno>
#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace cryo::resources {

namespace {

// Whether a member may have asked to be told of changes (F_NOTIFY). The kernel shows only that this
// made it the owner of the open directory, which it stays. No directory needs an owner otherwise.
bool may_notify(const Saving &saving, const Seen &seen)
{
    f_owner_ex owner = {};
    return seen.shared && fcntl(seen.shared.get(), F_GETOWN_EX, &owner) == 0 && owner.pid != 0 &&
           owner.type == F_OWNER_PID && saving.members(false).contains(owner.pid);
}

Result<void> save(Saving &saving, const Seen &seen)
{
    if (may_notify(saving, seen))
        saving.refuse(seen, "a directory whose changes are signalled (F_NOTIFY), " + seen.link,
                      "close it before the checkpoint, or undo that with F_NOTIFY and F_SETOWN, "
                      "each with 0");
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
    .is = [](const Seen &seen) { return is_file<S_IFDIR>(seen) && !about_ended(seen); },
    .save = save,
    .by_name = &by_name,
};

} // namespace cryo::resources
