// SPDX-License-Identifier: Apache-2.0
#include "capture/gather/objections.hpp"

#include "look/sharing.hpp"

#include <fmt/format.h>
#include <sched.h>
#include <set>
#include <unistd.h>

namespace cryo::capture {

namespace {

// A restart recreates a session through its leader; a first process's becomes cr_restart's.
void refuse_lost_sessions(const Members &members, const std::vector<Relation> &zombies)
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

// A restart creates processes of its own user only, so members of several users could not be
// restored, not even by root, who may save anybody's processes.
void refuse_several_users(const Members &members)
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

void note_other_user(const Members &members, std::vector<std::string> &notices)
{
    const image::Process &process = members.front()->description().process;
    if (process.uid == geteuid() && process.gid == getegid())
        return;
    notices.push_back(fmt::format("process {} is of user {} (group {}), who alone can restart the "
                                  "image, and must be able to read it: chown {}:{} the image",
                                  process.pid, process.uid, process.gid, process.uid, process.gid));
}

// Keys in keyrings that end with a process or thread are secrets, which the kernel may not give
// away, so they are not saved.
void note_own_keys(const Members &members, std::vector<std::string> &notices)
{
    for (const auto &member : members) {
        const Description &d = member->description();
        if (d.has_own_keys)
            notices.push_back(fmt::format("process {} has keys in a process-keyring or "
                                          "thread-keyring: they are not saved, and a restarted "
                                          "process has to add them again",
                                          d.process.pid));
    }
}

void note_sharing_outside(const Members &members, std::vector<std::string> &notices)
{
    for (const auto &member : members) {
        const Description &d = member->description();
        if (d.shares_outside)
            notices.push_back(fmt::format("process {} shares {} with process {}, which is not in "
                                          "the image (clone with CLONE_FS): a restarted process "
                                          "has its own",
                                          d.process.pid, what_is_shared(CLONE_FS), d.process.ppid));
    }
}

} // namespace

void add_objections(const Members &members, const std::vector<Relation> &zombies)
{
    refuse_lost_sessions(members, zombies);
    refuse_several_users(members);
}

void add_remarks(const Members &members, std::vector<std::string> &notices)
{
    note_other_user(members, notices);
    note_own_keys(members, notices);
    note_sharing_outside(members, notices);
}

} // namespace cryo::capture
