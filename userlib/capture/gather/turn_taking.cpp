// SPDX-License-Identifier: Apache-2.0
#include "capture/gather/turn_taking.hpp"

#include <cerrno>
#include <fmt/format.h>
#include <unistd.h>

namespace cryo::capture {

namespace {

std::string holder_of(const Turn &turn)
{
    return fmt::format("the checkpoint by process {}", turn.holder());
}

} // namespace

Result<bool> TurnTaking::take(const std::vector<Relation> &fresh, std::vector<Turn> &turns)
{
    const std::vector<char> word = merging_.first_word();
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

Result<void> TurnTaking::await_turn(pid_t pid, const std::string &address, Turn turn)
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
            changed = merging_.hear_holder(turn, packet);
        if (changed && !*changed)
            changed = merging_.hear_others();
        if (!changed)
            return changed.error();
        if (*changed)
            return {};
        if (Result<void> early = merging_.check_other(since, holder_of(turn)); !early)
            return early;
        if (roster_.is_needed() && turn.holder() < getpid()) {
            turn = Turn();
            return step_back(address);
        }
    }
}

// Gives up everything and starts again when the other checkpoint is finished. A message from it in
// between is lost: it sees us disconnect and then reconnect as a waiter that holds nothing.
Result<void> TurnTaking::step_back(const std::string &address)
{
    roster_.give_up(EAGAIN);
    merging_.send_guests_away();
    roster_.clear();
    in_scope_.begin_anew();
    has_stepped_back_ = true;
    Result<Turn> turn = Turn::take(address, {});
    const uint64_t since = now_ns();
    while (turn && !*turn) {
        meeting::Packet packet;
        const meeting::Heard heard = meeting::receive(turn->fd(), packet, look_again_ms);
        if (heard == meeting::Heard::closed)
            return {};
        if (heard == meeting::Heard::packet && packet.word() == meeting::Word::busy)
            return Merging::turned_away(*turn);
        if (Result<void> early = merging_.check_other(since, holder_of(*turn)); !early)
            return early;
    }
    return {};
}

} // namespace cryo::capture
