// SPDX-License-Identifier: Apache-2.0
// Descriptors in transit (SCM_RIGHTS). Peeking at a socket's queue gives us duplicates of them and
// leaves the queue unchanged.
#include "resources/socket/sockets.hpp"

#include "look/proc.hpp"
#include "resources/descriptor_text.hpp"

#include <algorithm>
#include <cerrno>
#include <fcntl.h>
#include <fmt/format.h>
#include <set>
#include <sys/socket.h>

namespace cryo::resources {

using capture::Passing;
using capture::SocketLook;
using image::FileKind;

// Looks at all sockets found so far. True: at least one of them was new.
Result<bool> Sockets::look_at_new()
{
    bool fresh = false;
    for (size_t i = 0; i < saving_.seen().size(); i++) {
        const Seen &seen = saving_.seen()[i];
        const uint64_t inode = seen.status.st_ino;
        if (seen.kind != FileKind::socket || (seen.flags & O_PATH) != 0 ||
            looked_at_.count(inode) != 0)
            continue;
        Result<SocketLook> look = capture::look_at_socket(seen.shared.get(), inode);
        if (!look)
            return look.error().within(descriptor_text(seen));
        group_tables_.look_at(seen.shared.get(), saving_.holder(seen), *look);
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
            ((is_unix && look.kind == SOCK_DGRAM) || capture::is_udp(look)) && look.unread;
        socket.contents = socket.in_pair || left_alone || datagrams;
    }
    return fresh;
}

Result<void> Sockets::find_passed(SeenSocket &socket)
{
    socket.peeked = true;
    socket.queue = capture::peek_queue(seen_of(socket).shared.get(), socket.look);
    if (!socket.queue && socket.queue.error().code() != ENOTSUP)
        return socket.queue.error();
    if (!socket.queue)
        return {}; // save_sockets() refuses it
    for (capture::PassedDescriptors &passed : socket.queue->passed) {
        std::vector<size_t> &files = socket.passed.emplace_back();
        for (Fd &fd : passed.descriptors) {
            Result<size_t> file = saving_.add(std::move(fd), seen_of(socket));
            if (!file)
                return file.error();
            files.push_back(*file);
        }
    }
    return {};
}

// A socket in transit may be the missing end of a pair and have queued messages of its own, so this
// repeats until nothing new is found.
Result<void> Sockets::look_into_all()
{
    for (;;) {
        Result<bool> fresh = look_at_new();
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

void Sockets::save_passed()
{
    const std::set<pid_t> members = saving_.members(false);
    for (const auto &[inode, socket] : looked_at_) {
        const Seen &where = seen_of(socket);
        for (size_t i = 0; i < socket.passed.size(); i++) {
            const capture::PassedDescriptors &passed = socket.queue->passed[i];
            std::vector<uint32_t> open_files;
            for (const size_t number : socket.passed[i]) {
                const Seen &seen = saving_.seen()[number];
                // A file in /proc must be opened by the process that it is about.
                const bool about_process = std::ranges::any_of(members, [&](pid_t member) {
                    return seen.link.starts_with(capture::Proc(member).path(""));
                });
                if (about_process)
                    saving_.refuse(where,
                                   fmt::format("a socket; a message in it holds {}", seen.link),
                                   "receive it before the checkpoint", Passing::soon);
                open_files.push_back(seen.open_file); // 0: that one is refused itself
            }
            image::Passed record;
            record.socket = where.open_file;
            record.position = passed.position;
            record.size = passed.size;
            record.packet = passed.packet;
            record.open_files = saving_.keep_list(open_files);
            saving_.records().add(record);
        }
    }
}

} // namespace cryo::resources
