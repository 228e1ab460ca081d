// SPDX-License-Identifier: Apache-2.0
// Pidfds. Those of ended processes are made here. For a pidfd of a member only the number is taken,
// by a placeholder that must never reach the program: the nursery replaces it.
#include "restore/open_parts.hpp"

#include "sys/raw.hpp"

#include <cerrno>
#include <linux/sched.h>
#include <sched.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

namespace cryo::restore {

namespace {

constexpr int by_pidfd = 3; // P_PIDFD, which glibc has since 2.36

// A pidfd of a process that has ended and was waited for: of a child that does nothing else.
Result<Fd> pidfd_of_ended()
{
    int pidfd = -1;
    clone_args args = {};
    args.flags = CLONE_PIDFD;
    args.pidfd = reinterpret_cast<uint64_t>(&pidfd);
    long child = sys::call(SYS_clone3, &args, sizeof(args));
    if (child == -ENOSYS) // denied by a container's filter, which allows clone()
        child = sys::call(SYS_clone, CLONE_PIDFD, 0, &pidfd, 0, 0);
    if (child == 0)
        sys::call(SYS_exit_group, 0);
    if (sys::failed(child))
        return Error::from_errno("making a process for a pidfd", static_cast<int>(-child));
    Fd made(pidfd);
    long waited;
    do
        waited = sys::call(SYS_waitid, by_pidfd, pidfd, nullptr, WEXITED | __WALL, nullptr);
    while (waited == -EINTR);
    if (sys::failed(waited))
        return Error::from_errno("waiting for a process for a pidfd", static_cast<int>(-waited));
    return made;
}

} // namespace

Result<void> open_pidfds(Planning &p)
{
    for (const auto &[id, saved] : p.saved.pidfds) {
        if (is_opened(p, id))
            continue;
        const auto open_file = p.saved.open_files.find(id);
        if (open_file == p.saved.open_files.end())
            return Error(EINVAL, "a pidfd refers to no open file");
        Result<Fd> made = saved.pid == 0 ? pidfd_of_ended() : Fd(open("/", O_PATH | O_CLOEXEC));
        if (!made)
            return made.error();
        if (!*made)
            return Error::from_errno("keeping a pidfd's number", errno);
        if (saved.pid == 0) {
            if (Result<void> set = set_flags(made->get(), open_file->second.flags, "a pidfd"); !set)
                return set;
        }
        if (Result<int> kept = keep_open(p, std::move(*made), id); !kept)
            return kept.error();
    }
    return {};
}

} // namespace cryo::restore
