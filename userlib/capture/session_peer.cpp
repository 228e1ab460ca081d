// SPDX-License-Identifier: Apache-2.0
#include "capture/session_peer.hpp"

#include "capture/diagnostics.hpp"
#include "capture/enterable.hpp"
#include "capture/internet_address.hpp"
#include "capture/members.hpp"

#include <algorithm>
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
    const auto visit = [&inode](const inet_diag_msg &socket, Attributes) {
        inode = socket.idiag_inode;
        return true;
    };
    const Result<bool> found = find_diagnosed<inet_diag_msg>(request, visit, Asking::one);
    return found && *found ? inode : 0;
}

bool has(const Proc &proc, const std::string &link)
{
    const Result<std::vector<int>> all = proc.numbers("fd");
    return all && std::ranges::any_of(*all, [&](int fd) {
               const Result<std::string> one = proc.link(fmt::format("fd/{}", fd));
               return one && *one == link;
           });
}

} // namespace

std::string link_of_peer(const SocketLook &look)
{
    uint64_t inode = look.peer_inode;
    if ((look.domain == AF_INET || look.domain == AF_INET6) && look.kind == SOCK_STREAM)
        inode = inode_of_tcp_peer(look);
    return inode == 0 ? "" : fmt::format("socket:[{}]", inode);
}

std::string offer_session(pid_t member, const std::set<pid_t> &members, const std::string &link)
{
    const Result<Relation> own = relation_of(member);
    if (link.empty() || !own)
        return {};
    const auto all = members_of(image::Scope::session, own->sid);
    if (!all || std::ranges::any_of(*all, [](const Relation &one) {
            return !one.zombie && !was_run_by_cr_run(Proc(one.pid));
        }))
        return {};
    for (const Relation &one : *all) {
        if (!members.contains(one.pid) && has(Proc(one.pid), link))
            return fmt::format("; process {} has the other end, which is in the same session: "
                               "cr_checkpoint --sid {} saves both",
                               one.pid, own->sid);
    }
    return {};
}

} // namespace cryo::capture
