// SPDX-License-Identifier: Apache-2.0
// Finds the processes in scope, and asks them to prepare.
#include "capture/gathering.hpp"

#include "base/path.hpp"
#include "libcr.h"
#include "look/together.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <poll.h>
#include <unistd.h>

namespace cryo::capture {

namespace {

using image::Scope;

constexpr int most_gone = 1000; // processes that disappeared while they were asked

// The numbering of libcr.h.
int told_scope(Scope scope)
{
    switch (scope) {
    case Scope::process:
        return CR_SCOPE_PROC;
    case Scope::group:
        return CR_SCOPE_PGRP;
    case Scope::session:
        return CR_SCOPE_SESS;
    case Scope::tree:
        break;
    }
    return CR_SCOPE_TREE;
}

} // namespace

// What the programs' callbacks may learn about this request.
agent::RequestInfo Gathering::request() const
{
    agent::RequestInfo info = {};
    info.signal = options_.then_signal;
    info.scope = told_scope(options_.scope);
    info.requester = options_.requester != 0 ? options_.requester : getpid();
    info.target = id_;
    info.flags = options_.without_requester ? agent::without_requester : 0;
    const std::string dest = absolute_path(options_.file);
    constexpr uint64_t longest_ms = 86'400'000;
    info.silence_ms = static_cast<uint32_t>(std::min(common_.silence_ns / 1'000'000, longest_ms));
    if (options_.fd < 0 && dest.size() < sizeof(info.dest))
        memcpy(info.dest, dest.c_str(), dest.size());
    return info;
}

// Collects all that can be found while they run. Once members wait for this checkpoint, no early
// look is made.
std::vector<std::unique_ptr<Member>> Gathering::find(const std::vector<Relation> &fresh,
                                                     std::vector<Turn> turns) const
{
    const bool early = options_.early_look && members_.empty();
    std::vector<std::unique_ptr<Member>> found(fresh.size());
    const Result<void> all = together(fresh.size(), [&](size_t i) -> Result<void> {
        found[i] = Member::find(fresh[i], std::move(turns[i]), common_);
        if (early) {
            EarlyLook look = EarlyLook::at(Proc(fresh[i].pid));
            common_.images.look(look.seen());
            found[i]->set_early_look(std::move(look));
            std::vector<pid_t> others;
            for (const Relation &other : fresh) {
                if (other.pid != fresh[i].pid)
                    others.push_back(other.pid);
            }
            found[i]->copy_early(others);
        }
        found[i]->provide_stage();
        return {};
    });
    static_cast<void>(all); // what failed here is reported by enter()
    return found;
}

Result<void> Gathering::ask(std::unique_ptr<Member> member)
{
    Result<void> asked = member->enter();
    if (asked)
        asked = member->ask_to_prepare(request());
    if (!asked && went_away(asked.error()))
        return {};
    if (!asked) {
        Result<bool> meant = is_meant_still(member->relation());
        if (!meant)
            return meant.error();
        return *meant ? asked : Result<void>();
    }
    asked_[member->relation().pid] = false;
    members_.push_back(std::move(member));
    return {};
}

// Asks all processes that are not known yet. False: there are none.
Result<bool> Gathering::ask_fresh()
{
    stepped_back_ = false;
    for (;;) {
        Result<std::vector<Relation>> found = fresh();
        if (!found)
            return found.error();
        if (found->empty())
            return false;
        std::vector<Turn> turns;
        Result<bool> ours = take_turns(*found, turns);
        if (!ours)
            return ours.error();
        if (!*ours && (stepped_back_ || has_joined()))
            return false;
        if (!*ours) { // its holder, for which too many wait, may have hung up at once
            constexpr int moment_ms = 20;
            poll(nullptr, 0, moment_ms);
            if (Result<void> early = check_deadline(common_.deadline); !early)
                return early.error();
            continue;
        }
        std::vector<std::unique_ptr<Member>> members = find(*found, std::move(turns));
        if (members_.empty())
            begun_ = now_ns();
        for (std::unique_ptr<Member> &member : members) {
            if (Result<void> asked = ask(std::move(member)); !asked)
                return asked.error();
        }
        return true;
    }
}

// The process ended, or executed another program, between two messages: the next look decides. An
// exiting process is neither gone nor a zombie for a moment; it then counts as new again.
bool Gathering::went_away(const Error &error)
{
    const int code = error.code();
    return (code == ECONNRESET || code == EPIPE || code == ESRCH) && ++gone_ < most_gone;
}

} // namespace cryo::capture
