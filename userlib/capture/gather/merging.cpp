// SPDX-License-Identifier: Apache-2.0
#include "capture/gather/merging.hpp"

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
meeting::Need Merging::need() const
{
    const bool held = std::ranges::any_of(roster_.all(), [](const auto &member) {
        return member->process().is_stopped() || member->process().turn().fd() < 0;
    });
    meeting::Need need;
    need.rank = rank_;
    need.terms = terms_;
    need.accepts = roster_.is_standing() ? 0 : 1;
    need.can_move =
        !roster_.is_standing() && !held && roster_.all().size() * 2 <= meeting::most_fds &&
                in_scope_.scopes().size() < most_others && in_scope_.omitted().size() < most_others
            ? 1
            : 0;
    return need;
}

std::vector<char> Merging::first_word() const
{
    std::vector<char> word;
    if (!roster_.all().empty())
        meeting::append(word, need());
    else if (const std::optional<meeting::Same> same = meeting::same_of(options_, id_); same)
        meeting::append(word, *same);
    return word;
}

Result<bool> Merging::hear_others()
{
    constexpr int most_at_once = 16; // what is left is read at the next look
    for (const auto &member : roster_.all()) {
        for (Turn::Waiter &waiter : member->process().turn().waiters()) {
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

Result<bool> Merging::answer(Turn::Waiter &waiter, Packet &packet)
{
    const bool is_ours = terms_ != meeting::Terms() && !roster_.has_begun(waiter.pid);
    meeting::Same same;
    if (packet.word() == Word::same) {
        const std::optional<meeting::Same> own = meeting::same_of(options_, id_);
        if (is_ours && !roster_.is_standing() && packet.is(same) && own && *own == same &&
            meeting::send(waiter.connection.get(), Word::ack)) {
            guests_.push_back(std::move(waiter.connection));
            roster_.forget_early_looks();
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

void Merging::turn_away()
{
    constexpr uint64_t patience_ns = 200'000'000;
    for (const auto &member : roster_.all()) {
        for (Turn::Waiter &waiter : member->process().turn().waiters()) {
            const uint64_t now = now_ns();
            waiter.since = waiter.since == 0 ? now : waiter.since;
            if (!waiter.connection || now - waiter.since < patience_ns)
                continue;
            waiter.since = now; // looked at again after as long
            if (!roster_.has_begun(waiter.pid))
                continue;
            meeting::send(waiter.connection.get(), Word::busy);
            waiter.connection.reset();
        }
    }
}

Error Merging::turned_away(const Turn &turn)
{
    return Error(EBUSY,
                 fmt::format("another checkpoint, by process {}, has not ended, and this "
                             "command was started in the middle of it by a process that is "
                             "being saved, perhaps in a callback: so it cannot be waited for",
                             turn.holder()));
}

Result<bool> Merging::hear_holder(const Turn &turn, Packet &packet)
{
    if (packet.word() == Word::busy)
        return turned_away(turn);
    if (turn.holder_uid() != geteuid() || terms_ == meeting::Terms())
        return false;
    switch (packet.word()) {
    case Word::ack: // to an identical request
        if (!roster_.all().empty())
            return false;
        host_ = copy_of(turn.fd());
        same_ = true;
        say_joined();
        return true;
    case Word::come:
        return need().can_move != 0 && !roster_.all().empty() ? move_to(turn.fd())
                                                              : Result<bool>(false);
    case Word::members:
        return take_in(packet, copy_of(turn.fd()));
    default:
        return false;
    }
}

Result<void> Merging::check_other(uint64_t since, const std::string &who) const
{
    if (options_.timeout_s != 0 || now_ns() - since < callbacks_limit_ns)
        return check_deadline(common_.deadline);
    return Error(EBUSY,
                 fmt::format("{} has not come to an end for {} s: it is stopped or hangs; end "
                             "it, or allow more by --time=SECONDS",
                             who, callbacks_limit_ns / 1'000'000'000));
}

void Merging::say_joined() const
{
    if (options_.phase)
        options_.phase("joined: another checkpoint saves these processes as well");
}

// Until the other checkpoint acknowledges the members, they are ours.
Result<bool> Merging::move_to(int connection)
{
    constexpr int look_for_ack_ms = 50;
    std::vector<char> bytes;
    std::vector<int> fds;
    meeting::append(bytes,
                    meeting::Members{Word::members, static_cast<uint32_t>(roster_.all().size()),
                                     static_cast<uint32_t>(in_scope_.scopes().size()),
                                     static_cast<uint32_t>(in_scope_.omitted().size())});
    for (const auto &member : roster_.all()) {
        const Relation &relation = member->relation();
        meeting::Moved moved;
        moved.started = relation.started;
        moved.pid = relation.pid;
        moved.callbacks = member->process().has_callbacks() ? 1 : 0;
        moved.since = member->process().asked_since();
        moved.asked = roster_.is_preparing(relation.pid) ? 1 : 0;
        moved.accepted = roster_.has_answered(relation.pid) ? 1 : 0;
        meeting::append(bytes, moved);
        fds.push_back(member->process().agent().fd());
        fds.push_back(member->process().turn().fd());
    }
    for (const InScope::Wanted &wanted : in_scope_.scopes())
        meeting::append(bytes, meeting::MovedScope{static_cast<uint32_t>(wanted.scope), wanted.id});
    for (const int32_t pid : in_scope_.omitted())
        meeting::append(bytes, pid);
    Fd host = copy_of(connection);
    if (!host || !meeting::send(host.get(), std::span<const char>(bytes), fds))
        return false;
    const uint64_t since = now_ns();
    for (;;) {
        Packet packet;
        const Heard heard = meeting::receive(host.get(), packet, look_for_ack_ms);
        if (heard == Heard::closed)
            return false;
        if (heard == Heard::packet && packet.word() == Word::ack)
            break;
        if (Result<void> early = check_other(since, "the checkpoint that this one joins"); !early) {
            roster_.clear(); // the other checkpoint may have them already
            return early.error();
        }
    }
    host_ = std::move(host);
    roster_.clear();
    say_joined();
    return true;
}

// Takes over the members of another checkpoint, as if a callback had named them.
Result<bool> Merging::take_in(Packet &packet, Fd guest)
{
    size_t at = 0;
    meeting::Members head;
    if (roster_.is_standing() || !packet.take(at, head) ||
        packet.fds.size() != head.members * size_t{2} || head.scopes > most_others ||
        head.omitted > most_others)
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
        come.back()->process().set_prepared(moved.callbacks != 0);
        come.back()->process().set_asked_since(moved.since);
        if (moved.asked != 0)
            asked[moved.pid] = moved.accepted != 0;
    }
    std::vector<InScope::Wanted> scopes;
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
        const auto found = asked.find(pid);
        roster_.take_in(std::move(member),
                        found != asked.end() ? std::optional(found->second) : std::nullopt);
    }
    roster_.forget_early_looks();
    for (const InScope::Wanted &wanted : scopes)
        in_scope_.add(wanted);
    for (const pid_t pid : omitted)
        in_scope_.omit(pid);
    guests_.push_back(std::move(guest));
    if (options_.phase)
        options_.phase(
            fmt::format("another checkpoint has joined this one, with {} processes", head.members));
    return true;
}

void Merging::send_guests_away()
{
    for (const Fd &guest : guests_)
        meeting::send(guest.get(), Word::again);
    guests_.clear();
}

void Merging::tell_guests(const Result<Outcome> &done)
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

Result<bool> Merging::await_report()
{
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
    roster_.clear();
    in_scope_.begin_anew();
    return false;
}

Result<Outcome> Merging::share(std::unique_ptr<image::Sink> sink)
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
