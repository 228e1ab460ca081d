// SPDX-License-Identifier: Apache-2.0
#include "resources/paths.hpp"

#include <cerrno>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

namespace cryo::resources {

namespace {

bool is_at(const Seen &seen, int directory, const char *name)
{
    struct stat now;
    return fstatat(directory, name, &now, AT_SYMLINK_NOFOLLOW) == 0 &&
           now.st_ino == seen.status.st_ino && now.st_dev == seen.status.st_dev;
}

} // namespace

bool is_named(const Seen &seen)
{
    return seen.named ? *seen.named : has_path(seen) && is_at(seen, AT_FDCWD, seen.link.c_str());
}

bool NamesLook::leads_to(const Seen &seen)
{
    if (!has_path(seen))
        return false;
    const size_t slash = seen.link.rfind('/');
    const std::string_view directory(seen.link.data(), slash + 1);
    if (directory != directory_) {
        directory_ = directory;
        opened_.reset(open(directory_.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
    }
    const char *name = seen.link.c_str() + slash + 1;
    return opened_ && *name != 0 ? is_at(seen, opened_.get(), name)
                                 : is_at(seen, AT_FDCWD, seen.link.c_str());
}

Result<void> go_to(int fd, const image::File &file, uint64_t position)
{
    if (lseek(fd, static_cast<off_t>(position), SEEK_SET) < 0)
        return Error::from_errno("going to the position in " + std::string(file.path), errno);
    return {};
}

} // namespace cryo::resources
