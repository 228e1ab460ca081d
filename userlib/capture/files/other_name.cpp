// SPDX-License-Identifier: Apache-2.0
#include "capture/files/other_name.hpp"

#include <algorithm>
#include <dirent.h>
#include <memory>
#include <sys/stat.h>

namespace cryo::capture {

std::string directory_of(std::string_view path)
{
    const size_t slash = path.rfind('/');
    return std::string(path.substr(0, std::max<size_t>(slash, 1)));
}

std::string other_name(const resources::Seen &seen)
{
    const std::string directory = directory_of(seen.link);
    const std::unique_ptr<DIR, int (*)(DIR *)> list(opendir(directory.c_str()), closedir);
    while (const dirent *entry = list ? readdir(list.get()) : nullptr) {
        if (entry->d_ino != seen.status.st_ino)
            continue;
        std::string path = directory + "/" + entry->d_name;
        struct stat now;
        if (lstat(path.c_str(), &now) == 0 && S_ISREG(now.st_mode) &&
            now.st_ino == seen.status.st_ino && now.st_dev == seen.status.st_dev)
            return path;
    }
    return {};
}

} // namespace cryo::capture
