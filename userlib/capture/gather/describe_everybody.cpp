// SPDX-License-Identifier: Apache-2.0
#include "capture/gather/describe_everybody.hpp"

#include "capture/gather/everybody.hpp"
#include "capture/gather/memory_of_others.hpp"
#include "capture/gather/objections.hpp"
#include "capture/gather/sharing.hpp"
#include "capture/process/shared_memory.hpp"

#include <cerrno>
#include <fmt/format.h>
#include <set>

namespace cryo::capture {

Result<void> describe_everybody(Gathering &gathering, Common &common, Obstacles &obstacles)
{
    const std::vector<std::unique_ptr<Member>> &members = gathering.members();
    const std::vector<Relation> &zombies = gathering.zombies();
    Result<void> described =
        for_all(members, [](Member &member) { return ask_to_describe(member.process().agent()); });
    if (described)
        described = for_all(members, [](Member &member) { return member.describe(); });
    if (!described)
        return described;
    common.at_work();
    // Before the descriptors: requests of asynchronous I/O may still end until then.
    Result<void> seen = for_all(members, [](Member &member) {
        return look_at_memory(member.description(), member.process().agent());
    });
    if (!seen)
        return seen;
    common.at_work();
    std::vector<Holder> holders;
    holders.reserve(members.size());
    for (const auto &member : members)
        holders.push_back(member->holder());
    std::set<pid_t> ended;
    for (const Relation &zombie : zombies)
        ended.insert(zombie.pid);
    if (Result<void> read = common.files.read_descriptors(std::move(holders), std::move(ended));
        !read)
        return read;
    common.at_work();
    for (const auto &member : members) {
        Description &d = member->description();
        common.ipc.look(d.proc, d.ipc_uses, d.space, d.problems);
        common.shared.count(d.space);
    }
    describe_sharing(members);
    for (const auto &member : members) {
        Description &d = member->description();
        common.shared.refuse_hidden(d.space, d.problems);
        common.ipc.look_undo(d.process, member->process().agent(), d.problems);
    }
    add_objections(members, zombies);
    constexpr const char *next_line = "\n  "; // of a message (base/printable.hpp)
    std::string problems;
    bool may_pass = true;
    const std::set<pid_t> everybody = gathering.known();
    for (const auto &member : members) {
        Description &d = member->description();
        describe_directory(d);
        describe_memory(d, common.shared, common.images, member == members.front());
    }
    refuse_memory_of_others(members, everybody);
    for (const auto &member : members) {
        Description &d = member->description();
        if (gathering.is_by_itself(d.proc.pid()))
            describe_children(d, everybody);
        gathering.tell_of_our_end(d);
        if (!d.problems.empty())
            problems += (problems.empty() ? "" : next_line) + d.problems.error(d.proc.pid()).text();
        // A stopped process does not change anything by itself.
        may_pass = may_pass && d.problems.may_pass() && !member->process().is_stopped();
        d.problems.add_to(obstacles.things);
        if (member->process().has_callbacks())
            obstacles.but = "its callbacks are called once for each request";
    }
    finish_shared(members.front()->description(), common.shared);
    for (const Relation &zombie : zombies) {
        if (zombie.wait_status >= 0)
            continue;
        problems += fmt::format("{}process {} has ended, and its exit status cannot be read",
                                problems.empty() ? "" : next_line, zombie.pid);
        may_pass = false;
    }
    if (problems.empty())
        return {};
    obstacles.may_pass = may_pass;
    return Error(ENOTSUP, problems);
}

} // namespace cryo::capture
