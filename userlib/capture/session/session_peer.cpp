// SPDX-License-Identifier: Apache-2.0
#include "capture/session/session_peer.hpp"

#include "capture/session/enterable.hpp"
#include "look/members.hpp"
#include "look/proc.hpp"

#include <algorithm>
#include <fcntl.h>
#include <fmt/format.h>

namespace cryo::capture {

namespace {

// The program is stopped meanwhile.
constexpr size_t most_descriptors = 10'000, most_sessions = 3;

} // namespace

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
