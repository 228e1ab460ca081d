// SPDX-License-Identifier: Apache-2.0
#include "restore/how_ended.hpp"

#include "base/fd.hpp"
#include "look/members.hpp"

#include <cstring>
#include <fmt/format.h>
#include <poll.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

namespace cryo::restore {

std::optional<int> status_of_end(pid_t pid)
{
    // A process's descriptors are closed a moment before it can be waited for.
    constexpr int patience_ms = 2'000;
    const Fd handle(static_cast<int>(syscall(SYS_pidfd_open, pid, 0)));
    pollfd ended = {handle.get(), POLLIN, 0};
    if (!handle || poll(&ended, 1, patience_ms) != 1)
        return {};
    const Result<capture::Relation> relation = capture::relation_of(pid);
    if (!relation || !relation->zombie || relation->wait_status < 0)
        return {};
    return relation->wait_status;
}

std::string how_ended(pid_t pid)
{
    const std::optional<int> status = status_of_end(pid);
    if (!status)
        return {};
    if (WIFSIGNALED(*status))
        return fmt::format("it was killed by signal {} ({})", WTERMSIG(*status),
                           strsignal(WTERMSIG(*status)));
    return fmt::format("it exited with status {}", WEXITSTATUS(*status));
}

} // namespace cryo::restore
