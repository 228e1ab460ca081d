// SPDX-License-Identifier: Apache-2.0
// The senders of packets queued in a socket. The kernel keeps a sender's name as long as one of its
// packets is queued, and reports it with the packet; a restart sends the packets again from that
// name.
#include "resources/socket/looked_at.hpp"

#include "base/fd.hpp"
#include "resources/descriptor_text.hpp"

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <fmt/format.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

namespace cryo::resources {

using capture::SocketLook;

namespace {

#ifndef SO_PASSPIDFD
#define SO_PASSPIDFD 76 // since Linux 6.5; libc's headers may be older
#endif

// An enabled option by which messages report their sender; nullptr: none.
const char *tells_sender(int fd)
{
    constexpr std::pair<int, const char *> options[] = {
        {SO_PASSCRED, "SO_PASSCRED"}, {SO_PASSPIDFD, "SO_PASSPIDFD"}, {SO_PASSSEC, "SO_PASSSEC"}};
    for (const auto &[name, text] : options) {
        int value = 0;
        socklen_t size = sizeof(value);
        if (getsockopt(fd, SOL_SOCKET, name, &value, &size) == 0 && value != 0)
            return text;
    }
    return nullptr;
}

// Whether a socket outside the checkpoint has the name, or its file has been replaced by something
// else: a restart could then not bind it.
bool is_taken(const LookedAt &sockets, const std::string &sender, const std::string &cwd)
{
    if (std::ranges::any_of(sockets, [&sender](const auto &one) {
            const SocketLook &look = one.second.look;
            return look.domain == AF_UNIX && look.kind == SOCK_DGRAM && look.local == sender;
        }))
        return false;
    sockaddr_un name = {};
    size_t size = std::min(sender.size(), sizeof(name));
    memcpy(&name, sender.data(), size);
    if (std::string path = capture::unix_path(sender); !path.empty()) {
        if (path.front() != '/')
            path = cwd + "/" + path;
        struct stat now;
        if (lstat(path.c_str(), &now) != 0)
            return false;
        if (!S_ISSOCK(now.st_mode))
            return true;
        if (path.size() >= sizeof(name.sun_path))
            return false; // the restart checks it, from that directory
        memcpy(name.sun_path, path.c_str(), path.size() + 1);
        size = offsetof(sockaddr_un, sun_path) + path.size() + 1;
    }
    const Fd caller(socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    return connect(caller.get(), reinterpret_cast<const sockaddr *>(&name),
                   static_cast<socklen_t>(size)) == 0 ||
           errno != ECONNREFUSED;
}

void keep_senders(Saving &saving, const std::vector<std::string> &senders,
                  const image::Socket &record)
{
    std::vector<uint32_t> sizes;
    std::string names;
    for (const std::string &sender : senders) {
        sizes.push_back(static_cast<uint32_t>(sender.size()));
        names += sender;
    }
    image::Senders all;
    all.socket = record.open_file;
    all.sizes = saving.keep_list(sizes);
    all.names = image::as_bytes(saving.keep(std::move(names)));
    saving.records().add(all);
}

} // namespace

std::string save_senders(Saving &saving, const LookedAt &sockets, const SeenSocket &socket,
                         const image::Socket &record, const std::string &cwd)
{
    const Seen &seen = saving.seen()[socket.seen];
    const SocketLook &look = socket.look;
    if ((look.domain != AF_UNIX && !capture::is_udp(look)) ||
        (socket.queue->packets.empty() && socket.queue->bytes.empty()))
        return {};
    const std::vector<std::string> &senders = socket.queue->senders;
    if (capture::is_udp(look)) {
        std::string problem = record.state == image::SocketState::closed
                                  ? "with datagrams of a connection that will be closed"
                                  : udp_problem(sockets, socket);
        if (problem.empty())
            keep_senders(saving, senders, record);
        return problem;
    }
    if (const char *option = tells_sender(seen.shared.get()); option != nullptr) {
        // Only the sender itself could be reported so again, and it is gone or outside.
        if (look.kind == SOCK_DGRAM && !socket.in_pair)
            return fmt::format("with unread datagrams whose senders the program is told ({})",
                               option);
        saving.notice(fmt::format("{}: a socket, {}: a restarted program sees "
                                  "cr_restart as the sender of what waits in it ({})",
                                  descriptor_text(seen), capture::describe_socket(look), option));
    }
    if (look.kind != SOCK_DGRAM)
        return {}; // the sender is or was the other end
    if (socket.in_pair || record.state == image::SocketState::closed) {
        // Packets that arrived before the two were connected remain in the queue.
        const SocketLook *peer = socket.in_pair ? &sockets.at(look.peer_inode).look : nullptr;
        const std::string expected =
            peer == nullptr || peer->local_is_unnamed ? std::string() : peer->local;
        if (std::ranges::any_of(senders, [&](const auto &one) { return one != expected; }))
            return "with datagrams of somebody else than its peer";
        return {};
    }
    if (look.local_is_unnamed)
        return "with datagrams that nobody could send to it now";
    for (const std::string &sender : senders) {
        if (!sender.empty() && is_taken(sockets, sender, cwd))
            return fmt::format("with datagrams of {}, a name that a process outside has",
                               capture::printable_address(sender));
    }
    keep_senders(saving, senders, record);
    return {};
}

} // namespace cryo::resources
