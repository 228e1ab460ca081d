// SPDX-License-Identifier: Apache-2.0
#include "capture/gathering.hpp"

#include "capture/signals.hpp"
#include "libcr.h"

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <fmt/format.h>
#include <poll.h>
#include <unistd.h>

namespace cryo::capture {

namespace {

using image::Scope;

constexpr int look_again_ms = 200;
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

// A process that ignores SIGCHLD cannot wait for an ended child.
bool ignores_children(pid_t pid)
{
    Result<std::string> status = Proc(pid).read("status");
    std::string_view ignored = status ? field(*status, "SigIgn") : std::string_view();
    return (take_number(ignored, 16) & uint64_t(1) << (SIGCHLD - 1)) != 0;
}

std::string holder_of(const Turn &turn)
{
    return fmt::format("the checkpoint by process {}", turn.holder());
}

bool is_frozen_copy(const Relation &relation)
{
    return relation.exit_signal == 0 && relation.comm == agent::copy_name;
}

} // namespace

pid_t Gathering::root() const
{
    return omitted_.count(id_) != 0 ? members_.front()->relation().pid : id_;
}

bool Gathering::is_by_itself(pid_t pid) const
{
    return std::ranges::any_of(scopes_, [&](const Wanted &wanted) {
        return wanted.scope == Scope::process && wanted.id == pid;
    });
}

std::set<pid_t> Gathering::known() const
{
    std::set<pid_t> all = omitted_;
    for (const auto &member : members_)
        all.insert(member->relation().pid);
    for (const Relation &zombie : zombies_)
        all.insert(zombie.pid);
    return all;
}

Result<bool> Gathering::is_left_out(const Relation &relation)
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
Result<std::vector<Relation>> Gathering::everybody()
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

// Between being found and being asked, a process may have got another parent or become one of our
// own commands: for example a child of vfork that was just being made.
Result<bool> Gathering::is_meant_still(const Relation &relation)
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

Result<std::vector<Relation>> Gathering::fresh()
{
    Result<std::vector<Relation>> all = everybody();
    if (!all)
        return all.error();
    std::vector<Relation> fresh;
    zombies_.clear();
    for (const Relation &one : *all) {
        const bool known = std::ranges::any_of(
            members_, [&](const auto &member) { return member->relation().pid == one.pid; });
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

// False: another checkpoint had one of the turns, so the processes must be looked up again. The
// turns taken so far are released before waiting, so that nobody waits for them meanwhile.
Result<bool> Gathering::take_turns(const std::vector<Relation> &fresh, std::vector<Turn> &turns)
{
    const std::vector<char> word = first_word();
    for (const Relation &relation : fresh) {
        Result<std::string> address = AgentDoor::address_of(Proc(relation.pid));
        if (!address) {
            turns.emplace_back(); // it has ended or is not accessible: enter() reports that
            continue;
        }
        Result<Turn> turn = Turn::take(*address, word);
        if (!turn)
            return turn.error();
        if (!*turn) {
            turns.clear();
            if (Result<void> over = await_turn(relation.pid, *address, std::move(*turn)); !over)
                return over.error();
            return false;
        }
        turns.push_back(std::move(*turn));
    }
    return true;
}

Result<void> Gathering::await_turn(pid_t pid, const std::string &address, Turn turn)
{
    constexpr int look_at_turn_ms = 50;
    if (options_.in_callback)
        return Error(EBUSY, fmt::format("process {} is being saved already, by process {}, for "
                                        "which a callback should not wait",
                                        pid, turn.holder()));
    if (options_.phase)
        options_.phase(fmt::format("waiting for the checkpoint of process {} by process {}", pid,
                                   turn.holder()));
    const uint64_t since = now_ns();
    for (;;) {
        meeting::Packet packet;
        const meeting::Heard heard = meeting::receive(turn.fd(), packet, look_at_turn_ms);
        if (heard == meeting::Heard::closed)
            return {};
        Result<bool> changed = false;
        if (heard == meeting::Heard::packet)
            changed = hear_holder(turn, packet);
        if (changed && !*changed)
            changed = hear_others();
        if (!changed)
            return changed.error();
        if (*changed)
            return {};
        if (Result<void> early = check_other(since, holder_of(turn)); !early)
            return early;
        const bool needed = std::ranges::any_of(members_, [](const auto &member) {
            return std::ranges::any_of(member->turn().waiters(), &Turn::Waiter::in_need);
        });
        if (needed && turn.holder() < getpid()) {
            turn = Turn();
            return step_back(address);
        }
    }
}

void Gathering::begin_anew()
{
    forget_members();
    omitted_.clear();
    left_out_.clear();
    scopes_.resize(1);
    standing_ = false;
}

// Gives up everything and starts again when the other checkpoint is finished. A message from it in
// between is lost: it sees us disconnect and then reconnect as a waiter that holds nothing.
Result<void> Gathering::step_back(const std::string &address)
{
    give_up(EAGAIN);
    send_guests_away();
    begin_anew();
    stepped_back_ = true;
    Result<Turn> turn = Turn::take(address, {});
    const uint64_t since = now_ns();
    while (turn && !*turn) {
        meeting::Packet packet;
        const meeting::Heard heard = meeting::receive(turn->fd(), packet, look_again_ms);
        if (heard == meeting::Heard::closed)
            return {};
        if (heard == meeting::Heard::packet && packet.word() == meeting::Word::busy)
            return turned_away(*turn);
        if (Result<void> early = check_other(since, holder_of(*turn)); !early)
            return early;
    }
    return {};
}

// Handles one packet of a member that was asked to prepare.
Result<void> Gathering::hear(size_t number)
{
    Member &member = *members_[number];
    const pid_t pid = member.relation().pid;
    Result<AgentSession::Prepared> heard = member.session().prepared();
    // The callbacks of the requested process must not be started twice.
    const bool begun = pid == id_ && asked_[pid];
    if (!heard && (begun || !went_away(heard.error())))
        return heard.error();
    if (!heard || heard->omits) {
        if (heard && pid == id_)
            return Error(ESRCH,
                         fmt::format("process {} leaves itself out: nothing is left to save", pid));
        if (heard)
            omitted_.insert(pid);
        asked_.erase(pid);
        members_.erase(members_.begin() + static_cast<ptrdiff_t>(number));
        return {};
    }
    switch (heard->op) {
    case agent::Op::accepted:
        asked_[pid] = true;
        break;
    case agent::Op::forward:
        if (scopes_.size() >= most_scopes)
            return Error(E2BIG, fmt::format("process {}: its callbacks want more than {} others "
                                            "saved with it",
                                            pid, most_scopes));
        scopes_.push_back({heard_scope(heard->scope), heard->target});
        break;
    default:
        member.set_prepared(heard->callbacks);
        // Callbacks run only once, so no early look may turn out wrong afterwards.
        if (heard->callbacks)
            forget_early_looks();
        asked_.erase(pid);
        to_stop_.insert(pid);
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
    const Member &member = *members_[number];
    const bool answered = asked_.at(member.relation().pid);
    if (Result<void> runs = members_[number]->session().check_running(); !runs)
        return runs;
    const bool silent = !answered && now_ns() - member.asked_since() > common_.silence_ns;
    if (silent && was_begun_by(getpid(), member.relation().pid, 0))
        return Error(EBUSY, fmt::format("process {} does not answer; it has started this command, "
                                        "perhaps in a callback after a restart, which would wait "
                                        "for itself",
                                        member.relation().pid));
    if (silent)
        return AgentDoor::silent(Proc(member.relation().pid));
    return {};
}

// Waits until all callbacks have reached cr_checkpoint(). Processes added by a callback are asked
// at once, because the callback may be waiting for them.
Result<void> Gathering::await_prepared()
{
    uint64_t last_look = now_ns();
    while (!asked_.empty()) {
        std::vector<pollfd> look;
        std::vector<size_t> whose;
        for (size_t i = 0; i < members_.size(); i++) {
            if (asked_.count(members_[i]->relation().pid) == 0)
                continue;
            look.push_back({members_[i]->session().fd(), POLLIN, 0});
            whose.push_back(i);
        }
        bool some_stopped = false;
        for (const auto &member : members_) {
            member->turn().add_to(look);
            some_stopped |= member->is_stopped();
            if (asked_.count(member->relation().pid) == 0)
                member->session().say_alive(); // it waits for the other members
            if (Result<void> followed = member->follow(); !followed)
                return followed;
        }
        const int ready = poll(look.data(), look.size(), some_stopped ? 1 : look_again_ms);
        if (Result<void> early = check_deadline(common_.deadline); !early)
            return early;
        // Even if there is always somebody, perhaps a stranger, who has something to say.
        const uint64_t now = now_ns();
        const bool look_at_silent =
            ready == 0 || now - last_look > uint64_t{look_again_ms} * 1'000'000;
        last_look = look_at_silent ? now : last_look;
        const bool others = std::any_of(look.begin() + static_cast<ptrdiff_t>(whose.size()),
                                        look.end(), [](const pollfd &p) { return p.revents != 0; });
        const size_t scopes = scopes_.size();
        for (size_t i = whose.size(); i-- > 0;) { // backwards: hear() may remove one
            Result<void> done;
            const Member &member = *members_[whose[i]];
            done = check_callbacks(member, member.asked_since());
            if (done && look[i].revents != 0)
                done = hear(whose[i]);
            else if (done && look_at_silent)
                done = check_silent(whose[i]);
            if (!done)
                return done;
        }
        if (Result<bool> heard = others ? hear_others() : false; !heard)
            return heard.error();
        turn_away();
        if (has_joined())
            return {};
        if (scopes_.size() > scopes) {
            if (Result<bool> asked = ask_fresh(); !asked)
                return asked.error();
        }
    }
    return {};
}

// A script may save itself: `cr_checkpoint $$`. The restored shell waits for this command and must
// get an answer: that it has ended well.
void Gathering::add_own_end()
{
    const auto is_parent = [parent = getppid()](const auto &member) {
        return member->relation().pid == parent;
    };
    if (std::ranges::none_of(members_, is_parent))
        return;
    Result<Relation> own = relation_of(getpid());
    if (!own || is_by_itself(own->ppid) || ignores_children(own->ppid))
        return;
    own->zombie = true;
    own->wait_status = 0;
    zombies_.push_back(std::move(*own));
}

void Gathering::tell_of_our_end(Description &d) const
{
    if (!zombies_.empty() && zombies_.back().pid == getpid() &&
        zombies_.back().ppid == d.proc.pid())
        add_end_of_child(d, getpid());
}

Result<void> Gathering::stop_everybody()
{
    for (;;) {
        if (Result<void> gathered = gather(); !gathered)
            return gathered;
        if (!has_joined())
            break;
        Result<bool> told = await_report();
        if (!told)
            return told.error();
        if (*told)
            return {};
    }
    for (size_t i = 0; i < members_.size(); i++)
        members_[i]->set_number(i);
    // Only zombies whose parent is saved matter to the image.
    std::erase_if(zombies_, [&](const Relation &zombie) {
        return std::ranges::none_of(
            members_, [&](const auto &member) { return member->relation().pid == zombie.ppid; });
    });
    add_own_end();
    if (!members_.empty())
        return {};
    if (std::string instead = Bystanders::instead_of(id_); !instead.empty())
        return Error(ESRCH, std::move(instead));
    return Error(ESRCH, left_out_.empty()
                            ? fmt::format("process {} has ended; nobody has waited for it", id_)
                            : "nothing is left to save: " + left_out_.front());
}

// A stopped process creates no others: once a look finds nobody new, the list is complete.
Result<void> Gathering::gather()
{
    for (;;) {
        Result<bool> asked = ask_fresh();
        if (!asked)
            return asked.error();
        if (has_joined())
            break;
        if (!*asked && stepped_back_)
            continue;
        if (!*asked)
            break;
        if (Result<void> prepared = await_prepared(); !prepared)
            return prepared;
        if (has_joined())
            break;
        standing_ = true;
        for (size_t i = members_.size(); i-- > 0;) { // backwards: one may be removed
            if (to_stop_.count(members_[i]->relation().pid) == 0)
                continue;
            Result<void> sent = members_[i]->ask_to_stop();
            if (!sent && !went_away(sent.error()))
                return sent;
            if (!sent) {
                to_stop_.erase(members_[i]->relation().pid);
                members_.erase(members_.begin() + static_cast<ptrdiff_t>(i));
            }
        }
        for (size_t i = members_.size(); i-- > 0;) {
            if (to_stop_.erase(members_[i]->relation().pid) == 0)
                continue;
            Result<void> stopped = members_[i]->await_stop();
            if (!stopped && !went_away(stopped.error()))
                return stopped;
            if (!stopped)
                members_.erase(members_.begin() + static_cast<ptrdiff_t>(i));
        }
    }
    return {};
}

Result<void> Gathering::callbacks_done()
{
    const uint64_t begun = now_ns();
    for (const auto &member : members_) {
        const AgentSession &session = member->session();
        while (member->has_callbacks() && !session.has_answer(look_again_ms) &&
               session.check_running() && check_deadline(common_.deadline)) {
            if (Result<void> early = check_callbacks(*member, begun); !early)
                return early;
            turn_away();
        }
        if (Result<void> done = member->callbacks_done(); !done)
            return done;
    }
    return {};
}

// All are told before the first answer is awaited.
void Gathering::give_up(int why)
{
    for (const auto &member : members_)
        member->give_up(why);
    for (const auto &member : members_)
        static_cast<void>(member->await_go_on());
}

} // namespace cryo::capture
