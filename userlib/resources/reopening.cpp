// SPDX-License-Identifier: Apache-2.0
#include "resources/reopening.hpp"

#include "base/open_found.hpp"

#include <cerrno>
#include <fcntl.h>
#include <fmt/format.h>

namespace cryo::resources {

Result<Fd> open_again(int fd, uint32_t flags, std::string_view what)
{
    // A pipe must not wait for its other end here.
    const uint32_t how = (flags & ~creation_flags & ~uint32_t(O_DIRECTORY)) | O_NONBLOCK;
    Result<Fd> again = reopen(fd, static_cast<int>(how), fmt::format("opening {}", what));
    if (again && (flags & O_PATH) == 0) {
        if (Result<void> set = set_flags(again->get(), flags, what); !set)
            return set.error();
    }
    return again;
}

Result<void> set_flags(int fd, uint32_t flags, std::string_view what)
{
    const int now = fcntl(fd, F_GETFL);
    const auto wanted = static_cast<int>(flags & (O_APPEND | O_NONBLOCK | O_DIRECT | O_NOATIME));
    if (now < 0 || (now & (O_APPEND | O_NONBLOCK | O_DIRECT | O_NOATIME)) == wanted)
        return {};
    if (fcntl(fd, F_SETFL, wanted) != 0)
        return Error::from_errno(fmt::format("setting the flags of {}", what), errno);
    return {};
}

} // namespace cryo::resources
