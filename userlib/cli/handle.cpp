// SPDX-License-Identifier: Apache-2.0
#include "cli/handle.hpp"

#include "cli/number.hpp"

#include <cerrno>
#include <fmt/format.h>
#include <poll.h>

namespace cryo::cli {

void add_handle_option(CLI::App &app, int &handle)
{
    app.add_option("--pidfd", handle)->transform(open_descriptor())->group("");
}

Result<void> check_handle(int handle, pid_t pid)
{
    if (handle < 0)
        return {};
    pollfd end = {handle, POLLIN, 0};
    if (poll(&end, 1, 0) < 0)
        return Error::from_errno("--pidfd", errno);
    if ((end.revents & POLLNVAL) != 0)
        return Error(EBADF, fmt::format("--pidfd: descriptor {} is not open", handle));
    if (end.revents != 0)
        return Error(ESRCH, fmt::format("process {} has ended", pid));
    return {};
}

} // namespace cryo::cli
