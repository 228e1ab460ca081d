// SPDX-License-Identifier: Apache-2.0
#include "capture/session/agent_connection.hpp"

#include "base/clock.hpp"
#include "base/passing.hpp"
#include "libcr.h"
#include "look/members.hpp"

#include <cerrno>
#include <cstring>
#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>

namespace cryo::capture {

using agent::Op;
using agent::Reply;

Error called_off_after(pid_t pid, uint64_t silent_ms)
{
    return Error(ETIME, fmt::format("process {} goes on: it received nothing for {:.0f} s while it "
                                    "stood still, because this command was stopped or the disk is "
                                    "slow; there is no image (--stall=SECONDS allows more)",
                                    pid, static_cast<double>(silent_ms) / 1e3));
}

bool is_stopped(pid_t pid)
{
    const Result<Relation> now = relation_of(pid);
    return now && now->stopped && !now->traced;
}

Result<void> check_running(pid_t pid)
{
    if (is_stopped(pid))
        return Error(EBUSY, fmt::format("process {} was stopped (SIGSTOP, job control) before it "
                                        "was saved: continue it with kill -CONT {}",
                                        pid, pid));
    return {};
}

void AgentConnection::take_over()
{
    heard_ = true;
    // Most probably, until a reply shows that the agent is older.
    features_ = agent::all_features;
}

// The last message of an agent that gave up waiting for us.
std::optional<Error> AgentConnection::called_off() const
{
    Reply last = {};
    while (receive_packet(socket_.get(), room_in(last), MSG_DONTWAIT) > 0) {
        if (last.magic == agent::protocol_magic && last.op == Op::called_off)
            return called_off_after(pid_, last.value);
    }
    return {};
}

void AgentConnection::expect(uint64_t limit_ns)
{
    answer_until_ = now_ns() + limit_ns;
}

Error AgentConnection::overdue() const
{
    if (std::optional<Error> told = called_off())
        return *std::move(told);
    return Error(EBUSY, fmt::format("process {} does not answer (request {}) for {:.0f} s: it is "
                                    "stopped or hangs, or the machine is overloaded; try "
                                    "again, or give it more time with --stall=SECONDS",
                                    pid_, static_cast<int>(asked_),
                                    static_cast<double>(silence_ns_) / 1e9));
}

Error AgentConnection::lost(int err) const
{
    if (std::optional<Error> told = called_off())
        return *std::move(told);
    if (has_ended(pid_))
        return Error(ESRCH, fmt::format("process {} has ended meanwhile", pid_), Reason::has_ended);
    return Error::from_errno(
        fmt::format("process {} goes on, but has closed the connection (after request {})", pid_,
                    static_cast<int>(asked_)),
        err == 0 ? ECONNRESET : err);
}

Result<void> AgentConnection::send(Op op, const agent::Outgoing &packet, std::span<const int> fds)
{
    asked_ = op;
    const std::span<const char> bytes = packet.bytes();
    if (send_with(socket_.get(), bytes, fds) == static_cast<ssize_t>(bytes.size()))
        return {};
    return not_sent(errno);
}

Error AgentConnection::not_sent(int err) const
{
    if (err == EPIPE || err == ECONNRESET)
        return lost(err);
    if (err == EAGAIN)
        return overdue();
    return Error::from_errno(fmt::format("asking process {}", pid_), err);
}

Result<void> AgentConnection::send_rest(std::span<const char> bytes)
{
    if (send_with(socket_.get(), bytes, {}) == static_cast<ssize_t>(bytes.size()))
        return {};
    Error why = not_sent(errno);
    shutdown(socket_.get(), SHUT_RDWR);
    return why;
}

Result<void> AgentConnection::await_packet()
{
    for (;;) {
        pollfd arrived = {socket_.get(), POLLIN, 0};
        if (poll(&arrived, 1, look_again_ms) > 0 && now_ns() < answer_until_)
            return {};
        if (Result<void> early = check_deadline(deadline_); !early)
            return early;
        if (Result<void> runs = check_running(pid_); !runs)
            return runs;
        if (now_ns() >= answer_until_)
            return overdue();
    }
}

Result<void> AgentConnection::packet(void *to, size_t size, size_t least)
{
    memset(to, 0, size);
    const std::span room(static_cast<char *>(to), size);
    ssize_t n;
    while ((n = receive_packet(socket_.get(), room, MSG_DONTWAIT)) < 0 && errno == EAGAIN) {
        if (Result<void> arrived = await_packet(); !arrived)
            return arrived;
    }
    if (n <= 0)
        return lost(n < 0 ? errno : 0);
    if (n < static_cast<ssize_t>(least == 0 ? size : least))
        return other_protocol();
    heard_ = true;
    if (now_ns() >= answer_until_) // a long answer can exceed the limit
        return overdue();
    return {};
}

Result<Reply> AgentConnection::reply(Op op)
{
    Reply answer = {};
    expect(silence_ns_);
    if (Result<void> got = packet(&answer, sizeof(answer)); !got)
        return got.error();
    note_release(answer);
    if (answer.magic == agent::protocol_magic && answer.op == Op::called_off)
        return called_off_after(pid_, answer.value);
    if (answer.magic != agent::protocol_magic || answer.op != op)
        return other_protocol();
    return answer;
}

// The version of an older agent tells its features. Newer agents sent their features when they
// accepted.
void AgentConnection::note_release(const Reply &reply)
{
    if (reply.magic != agent::protocol_magic)
        return;
    is_typed_ = reply.version >= agent::first_typed;
    if (!is_typed_)
        features_ = agent::features_of(reply.version);
    else if (reply.op == Op::accepted)
        features_ = reply.count;
}

bool AgentConnection::was_asked_ahead(Op op)
{
    if (asked_ahead_.empty() || asked_ahead_.front() != op)
        return false;
    asked_ahead_.pop_front();
    return true;
}

Result<Reply> AgentConnection::good_reply(Op op)
{
    Result<Reply> answer = reply(op);
    if (answer && answer->result < 0)
        return Error::from_errno(fmt::format("process {}", pid_),
                                 static_cast<int>(-answer->result));
    return answer;
}

Error AgentConnection::other_protocol()
{
    is_understood_ = false;
    return Error(CR_EVERSION, fmt::format("process {}: its agent answers in another protocol; it "
                                          "runs under another release of Cryo",
                                          pid_));
}

} // namespace cryo::capture
