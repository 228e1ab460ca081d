// SPDX-License-Identifier: Apache-2.0
#include "base/contents.hpp"

#include "base/fd.hpp"

#include <cerrno>
#include <fcntl.h>
#include <unistd.h>

namespace cryo {

Result<std::string> contents(int fd, const std::string &name)
{
    std::string text;
    char buffer[16384];
    for (;;) {
        const ssize_t n = read(fd, buffer, sizeof(buffer));
        if (n == 0)
            return text;
        if (n > 0)
            text.append(buffer, static_cast<size_t>(n));
        else if (errno != EINTR)
            return Error::from_errno(name, errno);
    }
}

Result<std::string> contents(const std::string &path)
{
    const Fd file(open(path.c_str(), O_RDONLY | O_CLOEXEC));
    if (!file)
        return Error::from_errno(path, errno);
    return contents(file.get(), path);
}

} // namespace cryo
