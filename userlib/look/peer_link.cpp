// SPDX-License-Identifier: Apache-2.0
#include "look/peer_link.hpp"

#include "look/diagnostics.hpp"
#include "look/internet_address.hpp"

#include <cerrno>
#include <cstring>
#include <fmt/format.h>
#include <linux/inet_diag.h>
#include <netinet/in.h>
#include <sys/socket.h>

namespace cryo::capture {

namespace {

// The kernel finds a socket by its own address (src) and that of its peer (dst).
// 0: there is none.
Result<uint64_t> inode_of_tcp_peer(const SocketLook &look)
{
    const InternetAddress own(look.local), peer(look.peer);
    inet_diag_req_v2 request = {};
    request.sdiag_family = static_cast<uint8_t>(look.domain);
    request.sdiag_protocol = IPPROTO_TCP;
    request.idiag_states = ~0U;
    request.id.idiag_cookie[0] = request.id.idiag_cookie[1] = INET_DIAG_NOCOOKIE;
    const auto put = [&look](const InternetAddress &from, auto &address, auto &port) {
        sockaddr_storage to;
        from.as(look.domain, to);
        const auto &four = reinterpret_cast<const sockaddr_in &>(to);
        port = four.sin_port;
        if (look.domain == AF_INET)
            memcpy(address, &four.sin_addr, sizeof(four.sin_addr));
        else
            memcpy(address, &reinterpret_cast<const sockaddr_in6 &>(to).sin6_addr,
                   sizeof(in6_addr));
    };
    put(peer, request.id.idiag_src, request.id.idiag_sport);
    put(own, request.id.idiag_dst, request.id.idiag_dport);
    uint64_t inode = 0;
    const auto visit = [&](const inet_diag_msg &socket, Attributes) {
        // Where there is no such connection, the kernel reports a listener that would accept it.
        if (socket.id.idiag_dport == request.id.idiag_dport)
            inode = socket.idiag_inode;
        return true;
    };
    const Result<bool> found = find_diagnosed<inet_diag_msg>(request, visit, Asking::one);
    // So the kernel says that there is no such socket.
    if (!found && found.error().code() != ENOENT)
        return found.error();
    return inode;
}

} // namespace

Result<std::string> link_of_peer(const SocketLook &look)
{
    uint64_t inode = look.peer_inode;
    if ((look.domain == AF_INET || look.domain == AF_INET6) && look.kind == SOCK_STREAM) {
        const Result<uint64_t> found = inode_of_tcp_peer(look);
        if (!found)
            return found.error();
        inode = *found;
    }
    return inode == 0 ? std::string() : fmt::format("socket:[{}]", inode);
}

} // namespace cryo::capture
