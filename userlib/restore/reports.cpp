// SPDX-License-Identifier: Apache-2.0
#include "restore/reports.hpp"

#include "base/fd.hpp"
#include "restore/how_ended.hpp"
#include "restore/restart.hpp"

#include <cerrno>
#include <csignal>
#include <fcntl.h>
#include <iterator>
#include <optional>
#include <poll.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

namespace cryo::restore {

pid_t read_birth(int status)
{
    uint32_t said[2] = {};
    ssize_t n;
    do {
        n = read(status, said, sizeof(said));
    } while (n < 0 && errno == EINTR);
    return n == sizeof(said) && said[0] == says_born ? static_cast<pid_t>(said[1]) : 0;
}

bool was_killed(pid_t pid)
{
    const std::optional<int> status = status_of_end(pid);
    return !status || (WIFSIGNALED(*status) && WTERMSIG(*status) == SIGKILL);
}

bool says_more(int status, pid_t pid)
{
    const Fd process(static_cast<int>(syscall(SYS_pidfd_open, pid, 0)));
    const bool gone = !process && errno == ESRCH;
    pollfd look[] = {{status, POLLIN, 0}, {process.get(), POLLIN, 0}};
    while (poll(look, std::size(look), gone ? 0 : -1) < 0 && errno == EINTR)
        ;
    // The process may have spoken and ended after the pipe was looked at.
    return look[0].revents != 0 || poll(look, 1, 0) == 1;
}

int Restarted::await_callbacks() const
{
    if (failed_callback != 0 || silent)
        return failed_callback;
    uint32_t code = 0;
    ssize_t n;
    if (!says_more(status.get(), pid))
        return 0;
    do {
        n = read(status.get(), &code, sizeof(code));
    } while (n < 0 && errno == EINTR);
    return n == sizeof(code) ? static_cast<int>(code) : 0;
}

int Restarted::failure() const
{
    if (failed_callback != 0)
        return failed_callback;
    // Children of the program may hold the other end open.
    uint32_t code = 0;
    bool alive = !silent; // whether this was read before
    fcntl(status.get(), F_SETFL, O_NONBLOCK);
    while (read(status.get(), &code, sizeof(code)) == sizeof(code)) {
        if (alive)
            return static_cast<int>(code);
        alive = code == says_alive;
    }
    return 0;
}

} // namespace cryo::restore
