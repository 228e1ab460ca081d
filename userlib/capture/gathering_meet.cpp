// SPDX-License-Identifier: Apache-2.0
// Merging two checkpoints: the members of the younger one move to the older one, which saves all of
// them together and reports the outcome. meeting.hpp describes the protocol.
#include "capture/gathering.hpp"

#include "image/snapshot.hpp"

#include <algorithm>
#include <cerrno>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/socket.h>
#include <unistd.h>

namespace cryo::capture {

using meeting::Heard;
using meeting::Packet;
using meeting::Word;

namespace {

constexpr size_t most_others = 1000; // scopes, and processes that were left out

Fd copy_of(int fd)
{
    return Fd(fcntl(fd, F_DUPFD_CLOEXEC, 0));
}

bool is_agent_of(pid_t pid, const Fd &connection)
{
    ucred peer = {};
    socklen_t size = sizeof(peer);
    return getsockopt(connection.get(), SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0 &&
           peer.pid == pid;
}

} // namespace

// Members held by ptrace cannot be moved, and a checkpoint with stopped members does not wait for
// another one's callbacks.
meeting::Need Gathering::need() const
{
    const bool held = std::ranges::any_of(members_, [](const auto &member) {
        return member->is_stopped() || member->turn().fd() < 0;
    });
    meeting::Need need;
    need.rank = rank_;
    need.terms = terms_;
    need.accepts = standing_ ? 0 : 1;
    need.can_move = !standing_ && !held && members_.size() * 2 <= meeting::most_fds &&
                            scopes_.size() < most_others && omitted_.size() < most_others
                        ? 1
                        : 0;
    return need;
}

// The message to the holder of a turn that we need.
std::vector<char> Gathering::first_word() const
{
    std::vector<char> word;
    if (!members_.empty())
        meeting::append(word, need());
    else if (const std::optional<meeting::Same> same = meeting::same_of(options_, id_); same)
        meeting::append(word, *same);
    return word;
}

// Reads from waiters for our turns. True: members have been taken over, or ours have moved.
Result<bool> Gathering::hear_others()
{
    constexpr int most_at_once = 16; // what is left is read at the next look
    for (const auto &member : members_) {
        for (Turn::Waiter &waiter : member->turn().waiters()) {
            if (!waiter.is_ours())
                continue;
            Packet packet;
            Heard heard = Heard::packet;
            // A waiter that has since turned to another holder is not in need.
            for (int i = 0; i < most_at_once && heard == Heard::packet; i++) {
                heard = meeting::receive(waiter.connection.get(), packet);
                if (heard != Heard::packet)
                    break;
                Result<bool> changed = answer(waiter, packet);
                if (!changed || *changed)
                    return changed;
            }
            if (heard == Heard::closed) {
                waiter.connection.reset();
                waiter.in_need = false;
            }
        }
    }
    return false;
}

Result<bool> Gathering::answer(Turn::Waiter &waiter, Packet &packet)
{
    const bool is_ours = terms_ != meeting::Terms() && !was_begun_by_ours(waiter.pid);
    meeting::Same same;
    if (packet.word() == Word::same) {
        const std::optional<meeting::Same> own = meeting::same_of(options_, id_);
        if (is_ours && !standing_ && packet.is(same) && own && *own == same &&
            meeting::send(waiter.connection.get(), Word::ack)) {
            guests_.push_back(std::move(waiter.connection));
            forget_early_looks();
        }
        return false;
    }
    if (packet.word() == Word::members)
        return is_ours ? take_in(packet, std::move(waiter.connection)) : Result<bool>(false);
    waiter.in_need = true;
    meeting::Need theirs;
    if (!is_ours || !packet.is(theirs) || theirs.terms != terms_)
        return false;
    const meeting::Need own = need();
    if (theirs.rank < own.rank)
        return own.can_move != 0 && theirs.accepts != 0 ? move_to(waiter.connection.get())
                                                        : Result<bool>(false);
    if (theirs.can_move != 0 && own.accepts != 0)
        waiter.in_need = !meeting::send(waiter.connection.get(), Word::come);
    return false;
}

bool Gathering::was_begun_by_ours(pid_t pid) const
{
    return std::ranges::any_of(members_, [&](const auto &member) {
        return was_begun_by(pid, member->relation().pid, member->asked_since());
    });
}

// A waiter may have been started by a callback that waits for its end: a deadlock. It is turned
// away only if this checkpoint makes no progress for a while; otherwise it gets its turn.
void Gathering::turn_away()
{
    constexpr uint64_t patience_ns = 200'000'000;
    for (const auto &member : members_) {
        for (Turn::Waiter &waiter : member->turn().waiters()) {
            const uint64_t now = now_ns();
            waiter.since = waiter.since == 0 ? now : waiter.since;
            if (!waiter.connection || now - waiter.since < patience_ns)
                continue;
            waiter.since = now; // looked at again after as long
            if (!was_begun_by_ours(waiter.pid))
                continue;
            meeting::send(waiter.connection.get(), Word::busy);
            waiter.connection.reset();
        }
    }
}

Error Gathering::turned_away(const Turn &turn)
{
    return Error(EBUSY,
                 fmt::format("another checkpoint, by process {}, has not ended, and this "
                             "command was started in the middle of it by a process that is "
                             "being saved, perhaps in a callback: so it cannot be waited for",
                             turn.holder()));
}

// Handles a packet from the holder of the turn that we wait for.
Result<bool> Gathering::hear_holder(const Turn &turn, Packet &packet)
{
    if (packet.word() == Word::busy)
        return turned_away(turn);
    if (turn.holder_uid() != geteuid() || terms_ == meeting::Terms())
        return false;
    switch (packet.word()) {
    case Word::ack: // to an identical request
        if (!members_.empty())
            return false;
        host_ = copy_of(turn.fd());
        same_ = true;
        say_joined();
        return true;
    case Word::come:
        return need().can_move != 0 && !members_.empty() ? move_to(turn.fd()) : Result<bool>(false);
    case Word::members:
        return take_in(packet, copy_of(turn.fd()));
    default:
        return false;
    }
}

// Limits the wait for another command, unless the request itself has a limit.
Result<void> Gathering::check_other(uint64_t since, const std::string &who) const
{
    if (options_.timeout_s != 0 || now_ns() - since < callbacks_limit_ns)
        return check_deadline(common_.deadline);
    return Error(EBUSY,
                 fmt::format("{} has not come to an end for {} s: it is stopped or hangs; end "
                             "it, or allow more by --time=SECONDS",
                             who, callbacks_limit_ns / 1'000'000'000));
}

void Gathering::say_joined() const
{
    if (options_.phase)
        options_.phase("joined: another checkpoint saves these processes as well");
}

// Until the other checkpoint acknowledges the members, they are ours.
Result<bool> Gathering::move_to(int connection)
{
    constexpr int look_again_ms = 50;
    std::vector<char> bytes;
    std::vector<int> fds;
    meeting::append(bytes, meeting::Members{Word::members, static_cast<uint32_t>(members_.size()),
                                            static_cast<uint32_t>(scopes_.size()),
                                            static_cast<uint32_t>(omitted_.size())});
    for (const auto &member : members_) {
        const Relation &relation = member->relation();
        meeting::Moved moved;
        moved.started = relation.started;
        moved.pid = relation.pid;
        moved.callbacks = member->has_callbacks() ? 1 : 0;
        moved.since = member->asked_since();
        if (const auto asked = asked_.find(relation.pid); asked != asked_.end()) {
            moved.asked = 1;
            moved.accepted = asked->second ? 1 : 0;
        }
        meeting::append(bytes, moved);
        fds.push_back(member->session().fd());
        fds.push_back(member->turn().fd());
    }
    for (const Wanted &wanted : scopes_)
        meeting::append(bytes, meeting::MovedScope{static_cast<uint32_t>(wanted.scope), wanted.id});
    for (const int32_t pid : omitted_)
        meeting::append(bytes, pid);
    Fd host = copy_of(connection);
    if (!host || !meeting::send(host.get(), std::span<const char>(bytes), fds))
        return false;
    const uint64_t since = now_ns();
    for (;;) {
        Packet packet;
        const Heard heard = meeting::receive(host.get(), packet, look_again_ms);
        if (heard == Heard::closed)
            return false;
        if (heard == Heard::packet && packet.word() == Word::ack)
            break;
        if (Result<void> early = check_other(since, "the checkpoint that this one joins"); !early) {
            forget_members(); // the other checkpoint may have them already
            return early.error();
        }
    }
    host_ = std::move(host);
    forget_members();
    say_joined();
    return true;
}

void Gathering::forget_members()
{
    members_.clear();
    asked_.clear();
    to_stop_.clear();
}

// Takes over the members of another checkpoint, as if a callback had named them.
Result<bool> Gathering::take_in(Packet &packet, Fd guest)
{
    size_t at = 0;
    meeting::Members head;
    if (standing_ || !packet.take(at, head) || packet.fds.size() != head.members * size_t{2} ||
        head.scopes > most_others || head.omitted > most_others)
        return false;
    std::vector<std::unique_ptr<Member>> come;
    std::map<pid_t, bool> asked;
    std::set<pid_t> omitted;
    for (uint32_t i = 0; i < head.members; i++) {
        meeting::Moved moved;
        Fd &connection = packet.fds[2 * i];
        if (!packet.take(at, moved) || !is_agent_of(moved.pid, connection))
            return false;
        Result<Relation> relation = relation_of(moved.pid);
        Result<Turn> turn = Turn::adopt(std::move(packet.fds[2 * i + 1]));
        if (!turn)
            return false;
        if (!relation || relation->zombie || relation->started != moved.started)
            continue; // the next look finds out
        come.push_back(Member::adopt(*relation, std::move(*turn), std::move(connection), common_));
        come.back()->set_prepared(moved.callbacks != 0);
        come.back()->set_asked_since(moved.since);
        if (moved.asked != 0)
            asked[moved.pid] = moved.accepted != 0;
    }
    std::vector<Wanted> scopes;
    for (uint32_t i = 0; i < head.scopes; i++) {
        meeting::MovedScope moved;
        if (!packet.take(at, moved) || moved.scope > static_cast<uint32_t>(image::Scope::session))
            return false;
        scopes.push_back({static_cast<image::Scope>(moved.scope), moved.id});
    }
    for (uint32_t i = 0; i < head.omitted; i++) {
        int32_t pid;
        if (!packet.take(at, pid))
            return false;
        omitted.insert(pid);
    }
    if (!meeting::send(guest.get(), Word::ack))
        return false;
    for (auto &member : come) {
        const pid_t pid = member->relation().pid;
        if (const auto found = asked.find(pid); found != asked.end())
            asked_.insert(*found);
        else
            to_stop_.insert(pid);
        members_.push_back(std::move(member));
    }
    forget_early_looks();
    scopes_.insert(scopes_.end(), scopes.begin(), scopes.end());
    omitted_.merge(omitted);
    guests_.push_back(std::move(guest));
    if (options_.phase)
        options_.phase(
            fmt::format("another checkpoint has joined this one, with {} processes", head.members));
    return true;
}

// An early look that fails makes us start again, but guests join only once.
void Gathering::forget_early_looks()
{
    for (const auto &member : members_)
        member->set_early_look(EarlyLook());
}

void Gathering::send_guests_away()
{
    for (const Fd &guest : guests_)
        meeting::send(guest.get(), Word::again);
    guests_.clear();
}

void Gathering::tell_guests(const Result<Outcome> &done)
{
    if (guests_.empty())
        return;
    meeting::Report report;
    Fd image;
    std::string why;
    if (done) {
        image.reset(open(options_.file.c_str(), O_RDONLY | O_CLOEXEC));
        report.error = image ? 0 : errno;
        why = image ? "" : options_.file + ": the image of several checkpoints cannot be read";
        report.processes = done->processes;
        report.threads = done->threads;
        report.pages = done->pages;
        report.stopped_ns = done->stopped_ns;
        report.bytes = done->image.size;
    } else {
        report.error = done.error().code();
        report.reason = done.error().reason();
        why = done.error().text();
    }
    memcpy(report.text, why.data(), std::min(why.size(), sizeof(report.text) - 1));
    const int fd = image.get();
    for (const Fd &guest : guests_)
        meeting::send(guest.get(), report,
                      image ? std::span<const int>(&fd, 1) : std::span<const int>());
    guests_.clear();
}

// False: the other checkpoint has stepped back, and this one must start again.
Result<bool> Gathering::await_report()
{
    constexpr int look_again_ms = 200;
    const uint64_t since = now_ns();
    for (;;) {
        Packet packet;
        const Heard heard = meeting::receive(host_.get(), packet, look_again_ms);
        if (heard == Heard::closed)
            return Error(ECANCELED, "another checkpoint, which this one had joined, was given up");
        if (heard == Heard::packet && packet.word() == Word::again)
            break;
        if (heard == Heard::packet && packet.is(report_)) {
            if (!packet.fds.empty())
                image_ = std::move(packet.fds.front());
            return true;
        }
        if (Result<void> early = check_other(since, "the checkpoint that this one has joined");
            !early)
            return early.error();
    }
    host_.reset();
    same_ = false;
    send_guests_away();
    begin_anew();
    return false;
}

// The joined checkpoint's image serves as ours; it is copied if the file is not the same.
Result<Outcome> Gathering::share(std::unique_ptr<image::Sink> sink)
{
    if (report_.error != 0)
        return Error(report_.error,
                     std::string(report_.text, strnlen(report_.text, sizeof(report_.text))),
                     report_.reason);
    Outcome outcome;
    outcome.processes = report_.processes;
    outcome.threads = report_.threads;
    outcome.pages = report_.pages;
    outcome.stopped_ns = report_.stopped_ns;
    outcome.image.size = report_.bytes;
    if (!same_) {
        image::Tree tree;
        tree.scope = options_.scope;
        tree.root_pid = static_cast<uint32_t>(id_);
        Result<image::Committed> copied =
            image::copy_snapshot(image_, options_.file, std::move(sink), tree);
        if (!copied)
            return copied.error();
        outcome.image = *copied;
    }
    outcome.notices.push_back(fmt::format("saved at the same moment for another checkpoint: {} "
                                          "processes in all",
                                          outcome.processes));
    outcome.total_ns = now_ns() - rank_.born;
    return outcome;
}

} // namespace cryo::capture
