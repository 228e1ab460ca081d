// SPDX-License-Identifier: Apache-2.0
// Users of the members. A restart creates processes of its own user only, so members of several
// users could not be restored, not even by root, who may save anybody's processes.
#include "capture/member.hpp"

#include <fmt/format.h>
#include <unistd.h>

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

void note_other_user(const std::vector<std::unique_ptr<Member>> &members,
                     std::vector<std::string> &notices)
{
    const image::Process &process = members.front()->description().process;
    if (process.uid == geteuid() && process.gid == getegid())
        return;
    notices.push_back(fmt::format("process {} is of user {} (group {}), who alone can restart the "
                                  "image, and must be able to read it: chown {}:{} the image",
                                  process.pid, process.uid, process.gid, process.uid, process.gid));
}

} // namespace cryo::capture
