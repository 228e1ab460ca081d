// SPDX-License-Identifier: Apache-2.0
#include "base/write_all.hpp"

#include <cerrno>
#include <unistd.h>

namespace cryo {

Result<void> write_all(int fd, std::string_view name, std::string_view text)
{
    while (!text.empty()) {
        const ssize_t n = write(fd, text.data(), text.size());
        if (n < 0 && errno != EINTR)
            return Error::from_errno(name, errno);
        if (n == 0) // some devices; asking again would not end
            return Error::from_errno(name, ENOSPC);
        text.remove_prefix(n > 0 ? static_cast<size_t>(n) : 0);
    }
    return {};
}

Result<void> write_all(int fd, std::string_view name, std::span<const uint8_t> bytes)
{
    return write_all(fd, name,
                     std::string_view(reinterpret_cast<const char *>(bytes.data()), bytes.size()));
}

} // namespace cryo
