// SPDX-License-Identifier: Apache-2.0
// Processes of several users, which no restart could make: it makes those of its own user.
#include "capture/member.hpp"

#include <fmt/format.h>

namespace cryo::capture {

void refuse_several_users(const std::vector<std::unique_ptr<Member>> &members)
{
    const image::Process &first = members.front()->description().process;
    for (const auto &member : members) {
        Description &d = member->description();
        if (d.process.uid == first.uid && d.process.gid == first.gid)
            continue;
        d.problems.add(fmt::format("its user is {} (group {}), that of process {} is {} (group "
                                   "{}), and a restart brings back processes of one user",
                                   d.process.uid, d.process.gid, first.pid, first.uid, first.gid),
                       "run all of them as one user");
    }
}

} // namespace cryo::capture
