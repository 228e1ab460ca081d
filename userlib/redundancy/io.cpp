// SPDX-License-Identifier: Apache-2.0
#include "redundancy/io.hpp"

#include <cerrno>
#include <unistd.h>

namespace cryo::redundancy {

Result<size_t> read_up_to(int fd, const std::string &path, image::MutableBytes bytes)
{
    size_t at = 0;
    while (at < bytes.size()) {
        const ssize_t n = read(fd, bytes.data() + at, bytes.size() - at);
        if (n == 0)
            break;
        if (n < 0 && errno != EINTR)
            return Error::from_errno(path, errno);
        at += n > 0 ? static_cast<size_t>(n) : 0;
    }
    return at;
}

} // namespace cryo::redundancy
