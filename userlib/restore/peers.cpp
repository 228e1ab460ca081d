// SPDX-License-Identifier: Apache-2.0
// The process that a UNIX socket names as its peer's (SO_PEERCRED).
#include "restore/open_parts.hpp"

#include <fmt/format.h>

namespace cryo::restore {

namespace {

std::string describe(uint32_t pid, uint32_t uid, uint32_t gid)
{
    constexpr uint32_t none = ~0U; // of a socket that names no peer
    if (pid == 0)
        return uid == none ? "nobody" : "a process without an id here";
    return fmt::format("process {} (user {}, group {})", pid, uid, gid);
}

std::string describe_socket(const Planning &p, uint32_t open_file)
{
    const int fd = descriptor_of(p, open_file);
    return fd < 0 ? "one in a message" : fmt::format("descriptor {}", fd);
}

} // namespace

void tell_peers(Planning &p)
{
    constexpr size_t most = 4; // that are told one by one
    size_t others = 0;
    std::string list;
    for (const auto &[id, before] : p.saved.of<image::PeerCredentials>()) {
        const auto fd = p.open_fds.find(id);
        ucred now = {};
        socklen_t size = sizeof(now);
        if (fd == p.open_fds.end() || p.redirected.contains(id) ||
            getsockopt(fd->second, SOL_SOCKET, SO_PEERCRED, &now, &size) != 0)
            continue;
        const auto pid = static_cast<uint32_t>(now.pid);
        if (pid == before.pid && now.uid == before.uid && now.gid == before.gid)
            continue;
        if (others++ < most)
            list += fmt::format(
                "{}{} {} before, {} now", list.empty() ? "" : "; ", describe_socket(p, id),
                describe(before.pid, before.uid, before.gid), describe(pid, now.uid, now.gid));
    }
    if (others > most)
        list += fmt::format("; and {} more", others - most);
    if (others != 0)
        p.plan.notices.push_back(fmt::format("UNIX sockets that name another peer (SO_PEERCRED) "
                                             "than before: {}: {}",
                                             others, list));
}

} // namespace cryo::restore
