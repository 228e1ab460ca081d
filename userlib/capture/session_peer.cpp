// SPDX-License-Identifier: Apache-2.0
#include "capture/session_peer.hpp"

#include "capture/enterable.hpp"
#include "look/diagnostics.hpp"
#include "look/internet_address.hpp"
#include "look/members.hpp"

#include <algorithm>
#include <fcntl.h>
#include <fmt/format.h>
#include <linux/inet_diag.h>
#include <netinet/in.h>

namespace cryo::capture {

namespace {

// The kernel finds a socket by its own address (src) and that of its peer (dst).
uint64_t inode_of_tcp_peer(const SocketLook &look)
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
        // Where there is no such connection the kernel tells of a listener that would take it.
        if (socket.id.idiag_dport == request.id.idiag_dport)
            inode = socket.idiag_inode;
        return true;
    };
    const Result<bool> found = find_diagnosed<inet_diag_msg>(request, visit, Asking::one);
    return found && *found ? inode : 0;
}

// The program is stopped meanwhile.
constexpr size_t most_descriptors = 10'000, most_sessions = 3;

} // namespace

std::string link_of_peer(const SocketLook &look)
{
    uint64_t inode = look.peer_inode;
    if ((look.domain == AF_INET || look.domain == AF_INET6) && look.kind == SOCK_STREAM)
        inode = inode_of_tcp_peer(look);
    return inode == 0 ? "" : fmt::format("socket:[{}]", inode);
}

SessionPeers::SessionPeers(pid_t sid, const std::set<pid_t> &members) : sid_(sid)
{
    const auto all = members_of(image::Scope::session, sid);
    if (!all || std::ranges::any_of(*all, [](const Relation &one) {
            return !one.zombie && !was_run_by_cr_run(Proc(one.pid));
        }))
        return;
    size_t count = 0;
    for (const Relation &one : *all) {
        const Proc proc(one.pid);
        if (members.contains(one.pid))
            continue;
        const Result<std::vector<int>> fds = proc.numbers("fd");
        for (size_t i = 0; fds && i < fds->size() && count < most_descriptors; i++, count++) {
            const Result<std::string> link = proc.link(fmt::format("fd/{}", (*fds)[i]));
            if (!link)
                continue;
            // Both ends of a pipe have one link, and a FIFO's may be that of any file.
            const bool is_socket = link->starts_with("socket:");
            const Result<std::string> info =
                is_socket ? std::string() : proc.read(fmt::format("fdinfo/{}", (*fds)[i]));
            if (!info)
                continue;
            std::string_view flags = field(*info, "flags");
            const auto access =
                is_socket ? O_RDWR : static_cast<int>(take_number(flags, 8) & O_ACCMODE);
            if (access != O_WRONLY)
                readers_.emplace(*link, one.pid);
            if (access != O_RDONLY)
                writers_.emplace(*link, one.pid);
        }
    }
}

std::string SessionPeers::offer(const std::string &link, uint32_t access) const
{
    const auto &others = access == O_RDONLY ? writers_ : readers_;
    const auto found = others.find(link);
    return found == others.end()
               ? ""
               : fmt::format("; process {} has the other end, which is in the same session: "
                             "cr_checkpoint --sid {} saves both",
                             found->second, sid_);
}

std::string SessionsPeers::offer(pid_t member, const std::set<pid_t> &members,
                                 const std::string &link, uint32_t access)
{
    const Result<Relation> own = relation_of(member);
    if (link.empty() || !own)
        return {};
    auto found = sessions_.find(own->sid);
    if (found == sessions_.end() && sessions_.size() < most_sessions)
        found = sessions_.try_emplace(own->sid, own->sid, members).first;
    return found == sessions_.end() ? "" : found->second.offer(link, access);
}

} // namespace cryo::capture
