// SPDX-License-Identifier: Apache-2.0
// Descriptors in transit (SCM_RIGHTS). Peeking at a socket's queue gives us duplicates of them and
// leaves the queue unchanged, so open files that no process has are examined as if we were a
// process that has them.
#include "capture/files.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <fmt/format.h>
#include <linux/kcmp.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace cryo::capture {

using image::FileKind;

// Looks at all sockets found so far. True: at least one of them was new.
Result<bool> Files::look_at_new_sockets()
{
    bool fresh = false;
    for (size_t i = 0; i < seen_.size(); i++) {
        const Seen &seen = seen_[i];
        const uint64_t inode = seen.status.st_ino;
        if (seen.kind != FileKind::socket || (seen.flags & O_PATH) != 0 ||
            looked_at_.count(inode) != 0)
            continue;
        Result<SocketLook> look = look_at_socket(seen.shared.get(), inode);
        if (!look)
            return look.error().within(fmt::format("descriptor {}", seen.fd));
        group_tables_.look_at(seen.shared.get(), holders_[seen.holder].proc, *look);
        SeenSocket socket;
        socket.seen = i;
        socket.look = std::move(*look);
        looked_at_.emplace(inode, std::move(socket));
        fresh = true;
    }
    for (auto &[inode, socket] : looked_at_) {
        const SocketLook &look = socket.look;
        const auto peer = looked_at_.find(look.peer_inode);
        const bool is_unix = look.domain == AF_UNIX && look.diagnosed && !look.listening;
        // Connected to each other; many datagram sockets may send to a single named one.
        socket.in_pair = is_unix && look.peer_inode != 0 && look.peer_inode != inode &&
                         peer != looked_at_.end() && peer->second.look.peer_inode == inode;
        const bool left_alone =
            is_unix && look.connected && look.peer_inode == 0 && look.kind != SOCK_DGRAM;
        // No matter who sent them, or whether the sender still exists.
        const bool datagrams =
            ((is_unix && look.kind == SOCK_DGRAM) || is_udp(look)) && look.unread;
        socket.contents = socket.in_pair || left_alone || datagrams;
    }
    return fresh;
}

// The index in seen_ of this open file, which is added if it is not there yet.
Result<size_t> Files::passed_file(Fd fd, const Seen &socket)
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

Result<void> Files::find_passed(SeenSocket &socket)
{
    socket.peeked = true;
    socket.queue = peek_queue(seen_[socket.seen].shared.get(), socket.look);
    if (!socket.queue && socket.queue.error().code() != ENOTSUP)
        return socket.queue.error();
    if (!socket.queue)
        return {}; // read_sockets() refuses it
    for (PassedDescriptors &passed : socket.queue->passed) {
        std::vector<size_t> &files = socket.passed.emplace_back();
        for (Fd &fd : passed.descriptors) {
            // A copy of the record, because seen_ may grow.
            Seen where;
            where.holder = seen_[socket.seen].holder;
            where.fd = seen_[socket.seen].fd;
            where.passed_in = seen_[socket.seen].passed_in;
            Result<size_t> file = passed_file(std::move(fd), where);
            if (!file)
                return file.error();
            files.push_back(*file);
        }
    }
    return {};
}

// A socket in transit may be the missing end of a pair and have queued messages of its own, so this
// repeats until nothing new is found.
Result<void> Files::look_into_sockets()
{
    for (;;) {
        Result<bool> fresh = look_at_new_sockets();
        if (!fresh)
            return fresh.error();
        if (!*fresh)
            return {};
        for (auto &[inode, socket] : looked_at_) {
            if (!socket.contents || socket.peeked)
                continue;
            if (Result<void> found = find_passed(socket); !found)
                return found;
        }
    }
}

// Refuses kinds of files that can only be restored by a process that has them.
std::string_view Files::passed_refusal(const Seen &seen) const
{
    if (seen.passed_in < 0)
        return "";
    if (const auto what = resources::kind(seen.kind).only_of_processes; !what.empty())
        return what;
    if (seen.kind == FileKind::socket && looked_at_.at(seen.status.st_ino).look.listening)
        return "a listening socket,";
    if (seen.info.find("\nlock:") != std::string::npos)
        return "a file that is locked,";
    f_owner_ex owner = {};
    if (seen.shared && (fcntl(seen.shared.get(), F_GETOWN_EX, &owner) != 0 || owner.pid != 0))
        return "something that sends its signals to a process (F_SETOWN),";
    return "";
}

Result<void> Files::read_passed()
{
    for (const auto &[inode, socket] : looked_at_) {
        const Seen &where = seen_[socket.seen];
        for (size_t i = 0; i < socket.passed.size(); i++) {
            const PassedDescriptors &passed = socket.queue->passed[i];
            std::vector<uint32_t> open_files;
            for (const size_t number : socket.passed[i]) {
                const Seen &seen = seen_[number];
                const auto nested = looked_at_.find(seen.status.st_ino);
                // The kernel limits the depth of nesting, which depends on the order of sending.
                if (seen.kind == FileKind::socket && nested != looked_at_.end() &&
                    !nested->second.passed.empty())
                    refuse(seen,
                           "a socket that is on its way in a message, and in which descriptors "
                           "wait themselves",
                           "receive them before the checkpoint", Passing::soon);
                // A file in /proc must be opened by the process that it is about.
                const bool about_process = std::ranges::any_of(holders_, [&](const Holder &holder) {
                    return seen.link.starts_with(holder.proc.path(""));
                });
                if (about_process)
                    refuse(where, fmt::format("a socket; a message in it holds {}", seen.link),
                           "receive it before the checkpoint", Passing::soon);
                open_files.push_back(seen.open_file); // 0: that one is refused itself
            }
            image::Passed record;
            record.socket = where.open_file;
            record.position = passed.position;
            record.size = passed.size;
            record.packet = passed.packet;
            record.open_files = strings_.keep_list(open_files);
            records_.add(record);
        }
    }
    return {};
}

} // namespace cryo::capture
