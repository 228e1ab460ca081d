// SPDX-License-Identifier: Apache-2.0
#include "resources/object_rights.hpp"

#include <cerrno>
#include <cstring>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

namespace cryo::resources {

std::string give_object_rights(int fd, const image::File &file, const Trust &trust,
                               std::string_view what)
{
    constexpr mode_t rights = 07777;
    constexpr uid_t unchanged = ~0U;
    constexpr gid_t unknown_group = unknown_owner; // numbers that the user namespace does not know
    struct stat now;
    if (file.mode == 0 || fstat(fd, &now) != 0)
        return {};
    int why = 0;
    const auto note = [&why](int result) { why = result == 0 ? why : errno; };
    if (file.gid != now.st_gid && file.gid != unknown_group)
        note(fchown(fd, unchanged, file.gid));
    if ((file.mode & rights) != (now.st_mode & rights))
        note(fchmod(fd, file.mode & rights));
    // Last: who has given it away may not be allowed the rest. An image may name the owner by the
    // id outside of a user namespace.
    if (file.uid != now.st_uid && !is_unknown(file.uid) && trust.owner_of(fd, now) != file.uid)
        note(fchown(fd, file.uid, unchanged));
    if (why == 0 || fstat(fd, &now) != 0)
        return {};
    return fmt::format("{} belongs to user {} and group {} now, and cannot be given back to user "
                       "{} and group {}, as only root may: {}",
                       what, now.st_uid, now.st_gid, file.uid, file.gid, strerror(why));
}

} // namespace cryo::resources
