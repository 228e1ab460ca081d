// SPDX-License-Identifier: Apache-2.0
// Sessions that cannot be recreated.
#include "capture/member.hpp"

#include <fmt/format.h>
#include <set>

namespace cryo::capture {

// A restart recreates a session through its leader; a first process's becomes cr_restart's.
void refuse_lost_sessions(const std::vector<std::unique_ptr<Member>> &members,
                          const std::vector<Relation> &zombies)
{
    std::set<uint32_t> here;
    for (const auto &member : members)
        here.insert(member->description().process.pid);
    for (const Relation &zombie : zombies)
        here.insert(static_cast<uint32_t>(zombie.pid));
    std::set<uint32_t> sessions = here;
    for (const auto &member : members) {
        const image::Process &process = member->description().process;
        if (here.count(process.ppid) == 0)
            sessions.insert(process.sid);
    }
    for (const auto &member : members) {
        Description &d = member->description();
        if (sessions.count(d.process.sid) == 0)
            d.problems.add(fmt::format("its session, {}, has lost its leader", d.process.sid),
                           "let the leader of a session live as long as its members");
    }
}

} // namespace cryo::capture
