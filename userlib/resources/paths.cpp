// SPDX-License-Identifier: Apache-2.0
#include "resources/paths.hpp"

#include <cerrno>
#include <unistd.h>

namespace cryo::resources {

bool is_named(const Seen &seen)
{
    struct stat now;
    if (seen.named)
        return *seen.named;
    return has_path(seen) && lstat(seen.link.c_str(), &now) == 0 &&
           now.st_ino == seen.status.st_ino && now.st_dev == seen.status.st_dev;
}

void learn_named(Seen &seen)
{
    seen.named = is_named(seen);
}

Result<void> go_to(int fd, const image::File &file, uint64_t position)
{
    if (lseek(fd, static_cast<off_t>(position), SEEK_SET) < 0)
        return Error::from_errno("going to the position in " + std::string(file.path), errno);
    return {};
}

} // namespace cryo::resources
