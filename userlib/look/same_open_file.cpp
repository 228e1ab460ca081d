// SPDX-License-Identifier: Apache-2.0
#include "look/same_open_file.hpp"

#include "base/fd.hpp"

#include <cerrno>
#include <csignal>
#include <cstring>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/epoll.h>
#include <sys/wait.h>
#include <unistd.h>

namespace cryo::capture {

namespace {

Error not_found_out(const std::string &why)
{
    return {ENOTSUP, fmt::format("which descriptors share an open file: kcmp(2) may not be called "
                                 "here, and {}; a container may forbid it (allow it, or "
                                 "CAP_SYS_PTRACE)",
                                 why)};
}

// Sets the signal of one open file, where it is used for nothing, and looks at the other's. The
// processes that have these files may run meanwhile.
Result<bool> try_by_signal(int one, int other)
{
    const int flags = fcntl(one, F_GETFL);
    if (flags < 0)
        return not_found_out(strerror(errno));
    if ((flags & O_PATH) != 0 || flags != fcntl(other, F_GETFL)) // of O_PATH all are alike
        return false;
    const int present = fcntl(one, F_GETSIG);
    if (present < 0)
        return not_found_out(strerror(errno));
    if (present != fcntl(other, F_GETSIG))
        return false;
    if ((flags & O_ASYNC) != 0 || fcntl(one, F_GETLEASE) > F_UNLCK)
        return not_found_out("a file that sends signals cannot be tried");
    const int mark = present == SIGRTMAX ? SIGRTMAX - 1 : SIGRTMAX;
    if (fcntl(one, F_SETSIG, mark) != 0)
        return not_found_out(strerror(errno));
    const bool same = fcntl(other, F_GETSIG) == mark;
    fcntl(one, F_SETSIG, present);
    return same;
}

} // namespace

bool is_forbidden(int error)
{
    return error == EPERM || error == ENOSYS;
}

Result<bool> is_same_open_file(int one, int other)
{
    constexpr int ask = 1027; // F_DUPFD_QUERY, of Linux 6.10
    const int answer = fcntl(one, ask, other);
    return answer >= 0 ? Result<bool>(answer == 1) : try_by_signal(one, other);
}

// A set takes the same open file under the same number only once. With no events asked for it is in
// there, if at all, for a moment.
Result<bool> is_watched(int set, int number, int file)
{
    enum Outcome { watched, other, failed };
    const pid_t child = fork();
    if (child == 0) {
        const int high = fcntl(set, F_DUPFD, number + 1);
        epoll_event event = {};
        if (high < 0 || dup2(file, number) != number)
            _exit(failed);
        if (epoll_ctl(high, EPOLL_CTL_ADD, number, &event) != 0)
            _exit(errno == EEXIST ? watched : other);
        epoll_ctl(high, EPOLL_CTL_DEL, number, nullptr);
        _exit(other);
    }
    int status = 0;
    while (child > 0 && waitpid(child, &status, 0) < 0 && errno == EINTR)
        ;
    if (child < 0 || !WIFEXITED(status) || WEXITSTATUS(status) == failed)
        return Error(EAGAIN, "what an epoll set watches could not be tried out");
    return WEXITSTATUS(status) == watched;
}

} // namespace cryo::capture
