// SPDX-License-Identifier: Apache-2.0
#include "capture/gather/roster.hpp"

#include <algorithm>
#include <cstddef>

namespace cryo::capture {

void Roster::add(std::unique_ptr<Member> member)
{
    asked_[member->relation().pid] = false;
    members_.push_back(std::move(member));
}

void Roster::take_in(std::unique_ptr<Member> member, std::optional<bool> answer)
{
    const pid_t pid = member->relation().pid;
    if (answer)
        asked_.emplace(pid, *answer);
    else
        to_stop_.insert(pid);
    members_.push_back(std::move(member));
}

void Roster::remove(size_t number)
{
    const pid_t pid = members_[number]->relation().pid;
    asked_.erase(pid);
    to_stop_.erase(pid);
    members_.erase(members_.begin() + static_cast<ptrdiff_t>(number));
}

void Roster::clear()
{
    members_.clear();
    asked_.clear();
    to_stop_.clear();
    is_standing_ = false;
}

bool Roster::has_answered(pid_t pid) const
{
    const auto found = asked_.find(pid);
    return found != asked_.end() && found->second;
}

void Roster::note_prepared(pid_t pid)
{
    asked_.erase(pid);
    to_stop_.insert(pid);
}

void Roster::forget_early_looks()
{
    for (const auto &member : members_)
        member->set_early_look(EarlyLook());
}

bool Roster::has_begun(pid_t pid) const
{
    return std::ranges::any_of(members_, [&](const auto &member) {
        return was_begun_by(pid, member->relation().pid, member->process().asked_since());
    });
}

bool Roster::is_needed() const
{
    return std::ranges::any_of(members_, [](const auto &member) {
        return std::ranges::any_of(member->process().turn().waiters(), &Turn::Waiter::in_need);
    });
}

// All processes get the message before the first answer is awaited.
void Roster::give_up(int why)
{
    for (const auto &member : members_)
        member->give_up(why);
    for (const auto &member : members_)
        static_cast<void>(member->process().await_go_on());
}

} // namespace cryo::capture
