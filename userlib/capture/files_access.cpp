// SPDX-License-Identifier: Apache-2.0
// Whose a file is.
#include "base/trust.hpp"
#include "capture/files.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

namespace cryo::capture {

// A restart judges owners as its caller sees them, outside of the program's user namespace.
uid_t Files::owner_of(const Seen &seen) const
{
    if (!options_.owner_of)
        return seen.status.st_uid;
    if (seen.shared)
        return options_.owner_of(seen.shared.get()).value_or(unknown_owner);
    const Fd found(open(seen.link.c_str(), O_PATH | O_NOFOLLOW | O_CLOEXEC));
    struct stat now = {};
    if (!found || fstat(found.get(), &now) != 0 || now.st_dev != seen.status.st_dev ||
        now.st_ino != seen.status.st_ino)
        return unknown_owner;
    return options_.owner_of(found.get()).value_or(unknown_owner);
}

} // namespace cryo::capture
