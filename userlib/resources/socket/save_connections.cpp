// SPDX-License-Identifier: Apache-2.0
// Connections that are recognised only by looking at both ends: TCP connections within the tree.
#include "resources/socket/sockets.hpp"

#include "look/tcp_look.hpp"

#include <sys/socket.h>

namespace cryo::resources {

using capture::SocketLook;
using capture::SocketQueue;

// The kernel refuses to fill more room than the address takes, which is that of the socket's own.
std::string former_peer(int fd)
{
    sockaddr_storage storage = {};
    auto *const address = reinterpret_cast<sockaddr *>(&storage);
    socklen_t size = sizeof(storage);
    if (getsockname(fd, address, &size) != 0 || size > sizeof(storage) ||
        getsockopt(fd, SOL_SOCKET, SO_PEERNAME, address, &size) != 0)
        return {};
    return std::string(reinterpret_cast<const char *>(&storage), size);
}

// TCP: both ends are in the checkpoint, so a restart can connect them again.
void Sockets::look_at_connections()
{
    std::vector<uint64_t> inodes;
    std::vector<const SocketLook *> looks;
    for (const auto &[inode, socket] : looked_at_) {
        inodes.push_back(inode);
        looks.push_back(&socket.look);
    }
    for (const auto &[accepted, caller] : capture::tcp_pairs(looks)) {
        SeenSocket *const ends[] = {&looked_at_.at(inodes[accepted]),
                                    &looked_at_.at(inodes[caller])};
        int fds[2];
        uint32_t shut[2] = {0, 0};
        for (size_t i = 0; i < 2; i++)
            fds[i] = seen_of(*ends[i]).shared.get();
        Result<void> possible = capture::await_delivery(fds[0], fds[1]);
        for (size_t i = 0; i < 2 && possible; i++) {
            Result<uint32_t> shutdown = capture::tcp_shutdown(fds[i]);
            Result<std::string> bytes = capture::peek_tcp(fds[i]);
            if (!shutdown || !bytes) {
                possible = shutdown ? bytes.error() : shutdown.error();
                continue;
            }
            shut[i] = *shutdown;
            ends[i]->queue = SocketQueue{std::move(*bytes), {}, {}, {}, false};
        }
        if (!possible && (close_ || (keep_ && hold_ != nullptr)))
            continue; // comes back as closed, or is kept, like one to an outside peer
        for (size_t i = 0; i < 2; i++) {
            ends[i]->look.shutdown = shut[i];
            ends[i]->look.peer_inode = inodes[i == 0 ? caller : accepted];
            ends[i]->in_pair = ends[i]->contents = ends[i]->peeked = true;
            if (!possible)
                ends[i]->queue = possible.error();
        }
        tcp_connections_.emplace_back(ends[0]->seen, ends[1]->seen);
    }
}

void Sockets::save_connections()
{
    for (const auto &[accepted, caller] : tcp_connections_) {
        image::Connection record;
        record.accepted = saving_.seen()[accepted].open_file;
        record.caller = saving_.seen()[caller].open_file;
        saving_.records().add(record);
    }
    tcp_connections_.clear();
}

} // namespace cryo::resources
