// SPDX-License-Identifier: Apache-2.0
// Open files that only travel in a message (SCM_RIGHTS): they are examined as if we were a process
// that has them, because the queue that was peeked at has given us duplicates.
#include "capture/files.hpp"

#include "resources/socket/sockets.hpp"

#include <cerrno>
#include <fcntl.h>
#include <linux/kcmp.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace cryo::capture {

using image::FileKind;

Result<size_t> Files::add(Fd fd, const Seen &socket)
{
    struct stat status;
    if (fstat(fd.get(), &status) != 0)
        return Error::from_errno("looking at a descriptor in a message", errno);
    for (size_t i = 0; i < seen_.size(); i++) {
        const Seen &known = seen_[i];
        if (known.status.st_ino != status.st_ino || known.status.st_dev != status.st_dev)
            continue;
        const long order =
            syscall(SYS_kcmp, proc_of(known).pid(), own_.pid(), KCMP_FILE, known.fd, fd.get());
        if (order < 0)
            return Error::from_errno("which descriptors share an open file with one in a message: "
                                     "kcmp(2)",
                                     errno);
        if (order == 0)
            return i;
    }
    Result<Seen> seen = look(own_, fd.get());
    if (!seen)
        return seen.error();
    seen->holder = socket.holder;
    seen->passed_in = socket.passed_in < 0 ? socket.fd : socket.passed_in;
    seen->shared = std::move(fd);
    seen->kind = resources::kind_of(*seen);
    seen_.push_back(std::move(*seen));
    return seen_.size() - 1;
}

// Refuses kinds of files that can only be restored by a process that has them.
std::string_view Files::passed_refusal(const Seen &seen, const resources::Sockets &sockets)
{
    if (seen.passed_in < 0)
        return "";
    if (const auto what = resources::kind(seen.kind).only_of_processes; !what.empty())
        return what;
    if (seen.kind == FileKind::socket && sockets.is_listening(seen))
        return "a listening socket,";
    if (seen.info.find("\nlock:") != std::string::npos)
        return "a file that is locked,";
    f_owner_ex owner = {};
    if (seen.shared && (fcntl(seen.shared.get(), F_GETOWN_EX, &owner) != 0 || owner.pid != 0))
        return "something that sends its signals to a process (F_SETOWN),";
    return "";
}

} // namespace cryo::capture
