// SPDX-License-Identifier: Apache-2.0
#include "capture/gather/sharing.hpp"

#include "look/sharing.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <map>
#include <sched.h>
#include <set>
#include <string_view>
#include <tuple>

namespace cryo::capture {

namespace {

// A child that a member has made, with all that belongs to it, is made by it again. So all sharers
// but one must be children of others of them.
void describe_group(const Members &members, uint64_t flag, const std::vector<size_t> &group)
{
    const Member *eldest = nullptr;
    for (const size_t number : group) {
        Member &member = *members[number];
        Description &d = member.description();
        const bool with_parent = std::ranges::any_of(group, [&](size_t other) {
            return members[other]->description().process.pid == d.process.ppid;
        });
        if (flag == CLONE_FILES) {
            if (number != group.front())
                d.problems.add(fmt::format("{} are those of process {} (CLONE_FILES)",
                                           what_is_shared(flag),
                                           members[group.front()]->relation().pid),
                               "let each process have its own: unshare(2)");
        } else if (with_parent) {
            d.process.shares |= static_cast<uint32_t>(flag);
        } else if (eldest == nullptr) {
            eldest = &member;
        } else {
            d.problems.add(fmt::format("it shares {} with process {} ({}), and with no parent that "
                                       "is saved",
                                       what_is_shared(flag), eldest->relation().pid,
                                       flag == CLONE_FS   ? "CLONE_FS"
                                       : flag == CLONE_IO ? "CLONE_IO"
                                                          : "CLONE_SYSVSEM"),
                           "save a parent with them that shares it, too, or end one of them");
        }
    }
}

void describe_all(const Members &members, uint64_t flag, const std::vector<size_t> &some)
{
    std::vector<pid_t> pids;
    pids.reserve(some.size());
    for (const size_t number : some)
        pids.push_back(members[number]->relation().pid);
    for (std::vector<size_t> &group : sharers(flag, pids)) {
        for (size_t &place : group)
            place = some[place];
        describe_group(members, flag, group);
    }
}

// Elsewhere than with its parent it is not looked for.
void note_outside(const Members &members)
{
    std::set<uint32_t> here;
    for (const auto &member : members)
        here.insert(member->description().process.pid);
    for (const auto &member : members) {
        Description &d = member->description();
        d.shares_outside =
            !here.contains(d.process.ppid) &&
            are_sharers(CLONE_FS, d.proc.pid(), static_cast<pid_t>(d.process.ppid)) == true;
    }
}

} // namespace

void describe_sharing(const Members &members)
{
    std::map<std::tuple<std::string_view, std::string_view, uint32_t>, std::vector<size_t>> places;
    std::vector<size_t> all;
    for (size_t i = 0; i < members.size(); i++) {
        image::Process &process = members[i]->description().process;
        process.shares = 0;
        places[{process.cwd, process.root, process.umask}].push_back(i);
        all.push_back(i);
    }
    note_outside(members);
    if (members.size() < 2)
        return;
    for (const auto &[place, some] : places)
        describe_all(members, CLONE_FS, some);
    constexpr uint64_t others[] = {CLONE_FILES, CLONE_IO, CLONE_SYSVSEM};
    for (const uint64_t flag : others)
        describe_all(members, flag, all);
}

} // namespace cryo::capture
