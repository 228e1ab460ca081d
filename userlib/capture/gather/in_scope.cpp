// SPDX-License-Identifier: Apache-2.0
#include "capture/gather/in_scope.hpp"

#include "capture/process/signals.hpp"

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <unistd.h>

namespace cryo::capture {

namespace {

using image::Scope;

// A process that ignores SIGCHLD cannot wait for an ended child.
bool ignores_children(pid_t pid)
{
    Result<std::string> status = Proc(pid).read("status");
    std::string_view ignored = status ? field(*status, "SigIgn") : std::string_view();
    return (take_number(ignored, 16) & uint64_t(1) << (SIGCHLD - 1)) != 0;
}

bool is_frozen_copy(const Relation &relation)
{
    return relation.exit_signal == 0 && relation.comm == agent::copy_name;
}

} // namespace

pid_t InScope::root(const Members &members) const
{
    return omitted_.count(id_) != 0 ? members.front()->relation().pid : id_;
}

bool InScope::is_by_itself(pid_t pid) const
{
    return std::ranges::any_of(scopes_, [&](const Wanted &wanted) {
        return wanted.scope == Scope::process && wanted.id == pid;
    });
}

std::set<pid_t> InScope::known(const Members &members) const
{
    std::set<pid_t> all = omitted_;
    for (const auto &member : members)
        all.insert(member->relation().pid);
    for (const Relation &zombie : zombies_)
        all.insert(zombie.pid);
    return all;
}

Result<bool> InScope::is_left_out(const Relation &relation)
{
    Result<std::string> why = bystanders_.why(relation);
    if (!why)
        return why.error();
    if (why->empty())
        return false;
    omitted_.insert(relation.pid);
    left_out_.push_back(std::move(*why));
    return true;
}

// All scopes together, each process once. A target added by a callback may have ended meanwhile.
Result<std::vector<Relation>> InScope::everybody() const
{
    std::vector<Relation> all;
    for (const Wanted &wanted : scopes_) {
        Result<std::vector<Relation>> some = members_of(wanted.scope, wanted.id);
        if (!some && &wanted != &scopes_.front() && some.error().code() == ESRCH)
            continue;
        if (!some)
            return some.error();
        for (Relation &one : *some) {
            const bool there =
                std::ranges::any_of(all, [&](const Relation &r) { return r.pid == one.pid; });
            if (!there)
                all.push_back(std::move(one));
        }
    }
    return all;
}

Result<bool> InScope::is_meant_still(const Relation &relation)
{
    Result<std::vector<Relation>> all = everybody();
    if (!all)
        return all.error();
    const auto now =
        std::ranges::find_if(*all, [&](const Relation &r) { return r.pid == relation.pid; });
    if (now == all->end() || now->started != relation.started || now->zombie)
        return false;
    Result<bool> left_out = is_left_out(*now);
    if (!left_out)
        return left_out.error();
    return !*left_out;
}

Result<std::vector<Relation>> InScope::fresh(const Members &members)
{
    Result<std::vector<Relation>> all = everybody();
    if (!all)
        return all.error();
    std::vector<Relation> fresh;
    zombies_.clear();
    for (const Relation &one : *all) {
        const bool known = std::ranges::any_of(
            members, [&](const auto &member) { return member->relation().pid == one.pid; });
        if (one.zombie) {
            zombies_.push_back(one);
        } else if (!known && !is_frozen_copy(one) && omitted_.count(one.pid) == 0) {
            Result<bool> left_out = is_left_out(one);
            if (!left_out)
                return left_out.error();
            if (!*left_out)
                fresh.push_back(one);
        }
    }
    return fresh;
}

void InScope::begin_anew()
{
    omitted_.clear();
    left_out_.clear();
    scopes_.resize(1);
}

// A script may save itself: `cr_checkpoint $$`. The restored shell waits for this command and must
// get an answer: that it has ended well.
void InScope::add_own_end(const Members &members)
{
    const auto is_parent = [parent = getppid()](const auto &member) {
        return member->relation().pid == parent;
    };
    if (std::ranges::none_of(members, is_parent))
        return;
    Result<Relation> own = relation_of(getpid());
    if (!own || is_by_itself(own->ppid) || ignores_children(own->ppid))
        return;
    own->zombie = true;
    own->wait_status = 0;
    zombies_.push_back(std::move(*own));
}

void InScope::finish(const Members &members)
{
    // The image has only zombies whose parent is saved.
    std::erase_if(zombies_, [&](const Relation &zombie) {
        return std::ranges::none_of(
            members, [&](const auto &member) { return member->relation().pid == zombie.ppid; });
    });
    add_own_end(members);
}

void InScope::tell_of_our_end(Description &d) const
{
    if (!zombies_.empty() && zombies_.back().pid == getpid() &&
        zombies_.back().ppid == d.proc.pid())
        add_end_of_child(d, getpid());
}

} // namespace cryo::capture
