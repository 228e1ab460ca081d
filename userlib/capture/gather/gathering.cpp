// SPDX-License-Identifier: Apache-2.0
#include "capture/gather/gathering.hpp"

#include "base/path.hpp"
#include "libcr.h"
#include "look/together.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fmt/format.h>
#include <poll.h>
#include <unistd.h>

namespace cryo::capture {

namespace {

using image::Scope;

constexpr size_t most_scopes = 1000;

Scope heard_scope(int scope)
{
    switch (scope) {
    case CR_SCOPE_PROC:
        return Scope::process;
    case CR_SCOPE_PGRP:
        return Scope::group;
    case CR_SCOPE_SESS:
        return Scope::session;
    default:
        return Scope::tree;
    }
}

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

// The facts about this request that the programs' callbacks may ask for.
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
    const bool early = options_.early_look && roster_.all().empty();
    std::vector<std::unique_ptr<Member>> found(fresh.size());
    const Result<void> all = together(fresh.size(), [&](size_t i) -> Result<void> {
        found[i] = Member::find(fresh[i], std::move(turns[i]), common_);
        if (early) {
            EarlyLook look = EarlyLook::at(Proc(fresh[i].pid));
            common_.images.look(look.seen());
            found[i]->set_early_look(std::move(look));
            found[i]->look_at_descriptors();
            std::vector<pid_t> others;
            for (const Relation &other : fresh) {
                if (other.pid != fresh[i].pid)
                    others.push_back(other.pid);
            }
            found[i]->freezing().changes().copy_early(others);
        }
        found[i]->freezing().changes().provide_stage();
        return {};
    });
    static_cast<void>(all); // what failed here is reported by enter()
    return found;
}

Result<void> Gathering::ask(std::unique_ptr<Member> member)
{
    Result<void> asked = member->process().enter();
    if (asked)
        asked = member->process().ask_to_prepare(request());
    if (!asked && went_away(asked.error()))
        return {};
    if (!asked) {
        Result<bool> meant = in_scope_.is_meant_still(member->relation());
        if (!meant)
            return meant.error();
        return *meant ? asked : Result<void>();
    }
    roster_.add(std::move(member));
    return {};
}

// Asks all processes that are not known yet. False: there are none.
Result<bool> Gathering::ask_fresh()
{
    turn_taking_.begin();
    for (;;) {
        Result<std::vector<Relation>> found = in_scope_.fresh(roster_.all());
        if (!found)
            return found.error();
        if (found->empty())
            return false;
        std::vector<Turn> turns;
        Result<bool> ours = turn_taking_.take(*found, turns);
        if (!ours)
            return ours.error();
        if (!*ours && (turn_taking_.has_stepped_back() || has_joined()))
            return false;
        if (!*ours) { // its holder, for which too many wait, may have hung up at once
            constexpr int moment_ms = 20;
            poll(nullptr, 0, moment_ms);
            if (Result<void> early = check_deadline(common_.deadline); !early)
                return early.error();
            continue;
        }
        std::vector<std::unique_ptr<Member>> members = find(*found, std::move(turns));
        if (roster_.all().empty())
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

// Handles one packet of a member that was asked to prepare.
Result<void> Gathering::hear(size_t number)
{
    Member &member = *roster_.all()[number];
    const pid_t pid = member.relation().pid;
    Result<AgentSession::Prepared> heard = member.process().agent().prepared();
    // The callbacks of the requested process must not be started twice.
    const bool begun = pid == id_ && roster_.has_answered(pid);
    if (!heard && (begun || !went_away(heard.error())))
        return heard.error();
    if (!heard || heard->omits) {
        if (heard && pid == id_)
            return Error(ESRCH,
                         fmt::format("process {} leaves itself out: nothing is left to save", pid));
        if (heard)
            in_scope_.omit(pid);
        roster_.remove(number);
        return {};
    }
    switch (heard->op) {
    case agent::Op::accepted:
        roster_.note_answer(pid);
        break;
    case agent::Op::forward:
        if (in_scope_.scopes().size() >= most_scopes)
            return Error(E2BIG, fmt::format("process {}: its callbacks request that more than {} "
                                            "other processes are saved with it",
                                            pid, most_scopes));
        in_scope_.add({heard_scope(heard->scope), heard->target});
        break;
    default:
        member.process().set_prepared(heard->callbacks);
        // Callbacks run only once, so no early look may turn out wrong afterwards.
        if (heard->callbacks)
            roster_.forget_early_looks();
        roster_.note_prepared(pid);
        break;
    }
    return {};
}

// Applies if the request has no limit of its own: callbacks may take long, but having callbacks
// must not make us wait for a program forever.
Result<void> Gathering::check_callbacks(const Member &member, uint64_t since) const
{
    if (options_.timeout_s != 0 || now_ns() - since < callbacks_limit_ns)
        return {};
    return Error(EBUSY, fmt::format("process {}: its callbacks have not come to an end for {} s; "
                                    "--time=SECONDS allows more",
                                    member.relation().pid, callbacks_limit_ns / 1'000'000'000));
}

Result<void> Gathering::check_silent(size_t number)
{
    Member &member = *roster_.all()[number];
    const bool answered = roster_.has_answered(member.relation().pid);
    if (Result<void> runs = member.process().agent().check_running(); !runs)
        return runs;
    const bool silent =
        !answered && (member.process().is_deaf() ||
                      now_ns() - member.process().asked_since() > common_.silence_ns);
    if (silent && was_begun_by(getpid(), member.relation().pid, 0))
        return Error(EBUSY, fmt::format("process {} does not answer; it has started this command, "
                                        "perhaps in a callback after a restart, which would wait "
                                        "for itself",
                                        member.relation().pid));
    return silent ? member.process().silent() : Result<void>();
}

// Waits until all callbacks have reached cr_checkpoint(). Processes added by a callback are asked
// at once, because the callback may be waiting for them.
Result<void> Gathering::await_prepared()
{
    uint64_t last_look = now_ns();
    while (roster_.has_preparing()) {
        std::vector<pollfd> look;
        std::vector<size_t> whose;
        for (size_t i = 0; i < roster_.all().size(); i++) {
            if (!roster_.is_preparing(roster_.all()[i]->relation().pid))
                continue;
            look.push_back({roster_.all()[i]->process().agent().fd(), POLLIN, 0});
            whose.push_back(i);
        }
        bool some_stopped = false;
        for (const auto &member : roster_.all()) {
            member->process().turn().add_to(look);
            some_stopped |= member->process().is_stopped();
            if (!roster_.is_preparing(member->relation().pid))
                member->process().agent().say_alive(); // it waits for the other members
            if (Result<void> followed = member->process().follow(); !followed)
                return followed;
        }
        const int ready = poll(look.data(), look.size(), some_stopped ? 1 : look_again_ms);
        if (Result<void> early = check_deadline(common_.deadline); !early)
            return early;
        // Silent members are looked at even if other processes, perhaps of another user, send
        // messages all the time.
        const uint64_t now = now_ns();
        const bool look_at_silent =
            ready == 0 || now - last_look > uint64_t{look_again_ms} * 1'000'000;
        last_look = look_at_silent ? now : last_look;
        const bool others = std::any_of(look.begin() + static_cast<ptrdiff_t>(whose.size()),
                                        look.end(), [](const pollfd &p) { return p.revents != 0; });
        const size_t scopes = in_scope_.scopes().size();
        for (size_t i = whose.size(); i-- > 0;) { // backwards: hear() may remove one
            Result<void> done;
            const Member &member = *roster_.all()[whose[i]];
            done = check_callbacks(member, member.process().asked_since());
            if (done && look[i].revents != 0)
                done = hear(whose[i]);
            else if (done && look_at_silent)
                done = check_silent(whose[i]);
            if (!done)
                return done;
        }
        if (Result<bool> heard = others ? merging_.hear_others() : false; !heard)
            return heard.error();
        merging_.turn_away();
        if (has_joined())
            return {};
        if (in_scope_.scopes().size() > scopes) {
            if (Result<bool> asked = ask_fresh(); !asked)
                return asked.error();
        }
    }
    return {};
}

Result<void> Gathering::stop_everybody()
{
    for (;;) {
        if (Result<void> gathered = gather(); !gathered)
            return gathered;
        if (!has_joined())
            break;
        Result<bool> told = merging_.await_report();
        if (!told)
            return told.error();
        if (*told)
            return {};
    }
    for (size_t i = 0; i < roster_.all().size(); i++)
        roster_.all()[i]->set_number(i);
    in_scope_.finish(roster_.all());
    if (!roster_.all().empty())
        return {};
    if (std::string instead = Bystanders::instead_of(id_); !instead.empty())
        return Error(ESRCH, std::move(instead));
    return Error(ESRCH, left_out().empty()
                            ? fmt::format("process {} has ended; nobody has waited for it", id_)
                            : "nothing is left to save: " + left_out().front());
}

// A stopped process creates no others: once a look finds no new process, the list is complete.
Result<void> Gathering::gather()
{
    for (;;) {
        Result<bool> asked = ask_fresh();
        if (!asked)
            return asked.error();
        if (has_joined())
            break;
        if (!*asked && turn_taking_.has_stepped_back())
            continue;
        if (!*asked)
            break;
        if (Result<void> prepared = await_prepared(); !prepared)
            return prepared;
        if (has_joined())
            break;
        roster_.set_standing();
        for (size_t i = roster_.all().size(); i-- > 0;) { // backwards: one may be removed
            if (!roster_.is_to_stop(roster_.all()[i]->relation().pid))
                continue;
            Result<void> sent = roster_.all()[i]->process().ask_to_stop();
            if (!sent && !went_away(sent.error()))
                return sent;
            if (!sent)
                roster_.remove(i);
        }
        for (size_t i = roster_.all().size(); i-- > 0;) {
            if (!roster_.is_to_stop(roster_.all()[i]->relation().pid))
                continue;
            roster_.note_stopping(roster_.all()[i]->relation().pid);
            Result<void> stopped = roster_.all()[i]->process().await_stop();
            if (!stopped && !went_away(stopped.error()))
                return stopped;
            if (!stopped)
                roster_.remove(i);
        }
    }
    return {};
}

Result<void> Gathering::callbacks_done()
{
    const uint64_t begun = now_ns();
    for (const auto &member : roster_.all()) {
        const AgentSession &session = member->process().agent();
        while (member->process().has_callbacks() && !session.has_answer(look_again_ms) &&
               session.check_running() && check_deadline(common_.deadline)) {
            if (Result<void> early = check_callbacks(*member, begun); !early)
                return early;
            merging_.turn_away();
        }
        if (Result<void> done = member->process().callbacks_done(); !done)
            return done;
    }
    return {};
}

} // namespace cryo::capture
