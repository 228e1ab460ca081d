// SPDX-License-Identifier: Apache-2.0
#include "capture/session.hpp"

#include "base/clock.hpp"
#include "base/passing.hpp"
#include "libcr.h"
#include "look/members.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

namespace cryo::capture {

using agent::Op;
using agent::Reply;

namespace {

constexpr int page_pipe_size = 1 << 20;

} // namespace

Error called_off_after(pid_t pid, uint64_t silent_ms)
{
    return Error(ETIME, fmt::format("process {} goes on: it was told nothing for {:.0f} s while it "
                                    "stood still, because this command was stopped or the disk is "
                                    "slow; there is no image (--stall=SECONDS allows more)",
                                    pid, static_cast<double>(silent_ms) / 1e3));
}

Result<AgentSession> AgentSession::enter(AgentDoor door)
{
    const pid_t pid = door.pid();
    Result<Fd> connection = std::move(door).enter();
    if (!connection)
        return connection.error();
    return AgentSession(std::move(*connection), pid);
}

// The last message of an agent that gave up waiting for us.
std::optional<Error> AgentSession::called_off() const
{
    Reply last = {};
    while (receive_packet(connection_.get(), room_in(last), MSG_DONTWAIT) > 0) {
        if (last.magic == agent::protocol_magic && last.op == Op::called_off)
            return called_off_after(pid_, last.value);
    }
    return {};
}

void AgentSession::expect(uint64_t limit_ns)
{
    answer_until_ = now_ns() + limit_ns;
}

Error AgentSession::overdue() const
{
    if (std::optional<Error> told = called_off())
        return *std::move(told);
    return Error(EBUSY, fmt::format("process {} does not answer (request {}) for {:.0f} s: it is "
                                    "stopped or hangs, or the machine has too much to do; try "
                                    "again, or give it more time with --stall=SECONDS",
                                    pid_, static_cast<int>(asked_),
                                    static_cast<double>(silence_ns_) / 1e9));
}

Error AgentSession::lost(int err) const
{
    if (std::optional<Error> told = called_off())
        return *std::move(told);
    if (has_ended(pid_))
        return Error(ESRCH, fmt::format("process {} has ended meanwhile", pid_), Reason::has_ended);
    return Error::from_errno(fmt::format("process {} goes on, but has hung up (after request {})",
                                         pid_, static_cast<int>(asked_)),
                             err == 0 ? ECONNRESET : err);
}

Result<void> AgentSession::send(Op op, const agent::Outgoing &packet, std::span<const int> fds)
{
    asked_ = op;
    const std::span<const char> bytes = packet.bytes();
    if (send_with(connection_.get(), bytes, fds) == static_cast<ssize_t>(bytes.size()))
        return {};
    return not_sent(errno);
}

Error AgentSession::not_sent(int err) const
{
    if (err == EPIPE || err == ECONNRESET)
        return lost(err);
    if (err == EAGAIN)
        return overdue();
    return Error::from_errno(fmt::format("asking process {}", pid_), err);
}

// Sends the data of the preceding command. If that fails, the agent would take the next command for
// this data and never see the command itself. So the connection is shut down; the agent notices and
// lets the program resume.
Result<void> AgentSession::send_rest(std::span<const char> bytes)
{
    if (send_with(connection_.get(), bytes, {}) == static_cast<ssize_t>(bytes.size()))
        return {};
    Error why = not_sent(errno);
    shutdown(connection_.get(), SHUT_RDWR);
    return why;
}

Result<void> AgentSession::ask_to_resume(int why, int signal)
{
    return send(agent::ResumeRequest{.why = why, .signal = signal});
}

bool AgentSession::sends_itself_signals() const
{
    return can(agent::Feature::alive);
}

void AgentSession::say_alive()
{
    const agent::Outgoing packet(agent::AliveRequest{}, is_typed_);
    if (can(agent::Feature::alive))
        send_with(connection_.get(), packet.bytes(), {}, MSG_DONTWAIT);
}

Result<void> AgentSession::check_standing()
{
    if (!can(agent::Feature::alive))
        return {};
    if (Result<Reply> answer = ask(agent::AliveRequest{.flags = agent::AliveRequest::wants_reply});
        !answer)
        return answer.error();
    return {};
}

bool AgentSession::is_stopped() const
{
    const Result<Relation> now = relation_of(pid_);
    return now && now->stopped && !now->traced;
}

// Callbacks may take any time, but a process stopped by a signal does nothing at all.
Result<void> AgentSession::await_packet()
{
    constexpr int look_again_ms = 200;
    for (;;) {
        pollfd arrived = {connection_.get(), POLLIN, 0};
        if (poll(&arrived, 1, look_again_ms) > 0 && now_ns() < answer_until_)
            return {};
        if (Result<void> early = check_deadline(deadline_); !early)
            return early;
        if (Result<void> runs = check_running(); !runs)
            return runs;
        if (now_ns() >= answer_until_)
            return overdue();
    }
}

Result<void> AgentSession::check_running() const
{
    if (is_stopped())
        return Error(EBUSY, fmt::format("process {} was stopped (SIGSTOP, job control) before "
                                        "it was saved: let it go on, kill -CONT {}",
                                        pid_, pid_));
    return {};
}

Result<void> AgentSession::packet(void *to, size_t size, size_t least)
{
    memset(to, 0, size);
    const std::span room(static_cast<char *>(to), size);
    ssize_t n;
    while ((n = receive_packet(connection_.get(), room, MSG_DONTWAIT)) < 0 && errno == EAGAIN) {
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

Result<Reply> AgentSession::reply(Op op)
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

// From older agents everything is known by their version. Others have told it when they accepted.
void AgentSession::note_release(const Reply &reply)
{
    if (reply.magic != agent::protocol_magic)
        return;
    is_typed_ = reply.version >= agent::first_typed;
    if (!is_typed_)
        features_ = agent::features_of(reply.version);
    else if (reply.op == Op::accepted)
        features_ = reply.count;
}

bool AgentSession::was_asked_ahead(Op op)
{
    if (asked_ahead_.empty() || asked_ahead_.front() != op)
        return false;
    asked_ahead_.pop_front();
    return true;
}

Result<Reply> AgentSession::good_reply(Op op)
{
    Result<Reply> answer = reply(op);
    if (answer && answer->result < 0)
        return Error::from_errno(fmt::format("process {}", pid_),
                                 static_cast<int>(-answer->result));
    return answer;
}

// The agent answers quickly, or never.
Result<void> AgentSession::await_answer(int milliseconds)
{
    pollfd answered = {connection_.get(), POLLIN, 0};
    int ready;
    do {
        ready = poll(&answered, 1, milliseconds);
    } while (ready < 0 && errno == EINTR);
    if (ready == 0 && is_stopped())
        return await_packet();
    if (ready == 0)
        return AgentDoor::silent(Proc(pid_));
    return {};
}

Result<void> AgentSession::ask_to_stop()
{
    return send(agent::StopRequest{});
}

Result<uint64_t> AgentSession::stop()
{
    // The agent itself gives up on a thread after five seconds.
    constexpr uint64_t least_ms = 6000;
    const uint64_t limit_ms = std::max(least_ms, silence_ns_ / 1'000'000);
    if (Result<void> answered = await_answer(static_cast<int>(limit_ms)); !answered)
        return answered.error();
    Result<Reply> answer = reply(Op::stop);
    if (!answer)
        return answer.error();
    switch (answer->result) {
    case 0:
        return answer->value;
    case -ETIMEDOUT:
        return Error(EBUSY, fmt::format("process {}: thread {} does not answer: it blocks the "
                                        "checkpoint signal or waits in the kernel (vfork, a dead "
                                        "file server); the program goes on",
                                        pid_, answer->value));
    case -EPERM:
        return Error(EPERM, fmt::format("process {} is not dumpable: it has secrets to keep or was "
                                        "setuid",
                                        pid_));
    default:
        return Error::from_errno(fmt::format("stopping process {}", pid_),
                                 static_cast<int>(-answer->result));
    }
}

namespace {

struct Channel {
    Fd commands, pipe; // our ends
    Fd their_commands, their_pipe;
};

Result<Channel> make_channel()
{
    int pair[2];
    int ends[2];
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) != 0)
        return Error::from_errno("socketpair", errno);
    Channel channel{Fd(pair[0]), Fd(), Fd(pair[1]), Fd()};
    if (pipe2(ends, O_CLOEXEC) != 0)
        return Error::from_errno("pipe", errno);
    channel.pipe.reset(ends[0]);
    channel.their_pipe.reset(ends[1]);
    fcntl(ends[1], F_SETPIPE_SZ, page_pipe_size); // fewer rounds; not every user may have so much
    return channel;
}

} // namespace

// Our copies of the sent ends are closed here: only the copy has them, so we notice its death.
Result<void> AgentSession::ask_to_fork(int device)
{
    Result<Channel> channel = make_channel();
    if (!channel)
        return channel.error();
    const int fds[3] = {channel->their_commands.get(), channel->their_pipe.get(), device};
    const std::span<const int> sent_fds(fds, device >= 0 ? 3 : 2);
    if (Result<void> sent = send(agent::ForkRequest{}, sent_fds); !sent)
        return sent;
    copy_commands_ = std::move(channel->commands);
    copy_pages_ = std::move(channel->pipe);
    copy_has_device_ = device >= 0;
    return {};
}

Result<PageSource> AgentSession::forked()
{
    Result<Reply> answer = reply(Op::fork);
    if (!answer)
        return answer.error();
    if (answer->result < 0) {
        copy_commands_.reset();
        copy_pages_.reset();
        return Error::from_errno(fmt::format("forking process {}", pid_),
                                 static_cast<int>(-answer->result));
    }
    // The copy sends a message once it has closed the program's descriptors.
    Reply ready = {};
    if (!await_readable(copy_commands_.get(), silence_ns_))
        return Error(EBUSY, fmt::format("the frozen copy of process {} does not begin: somebody "
                                        "has stopped it, or the machine has too much to do",
                                        pid_));
    if (receive_packet(copy_commands_.get(), room_in(ready)) != sizeof(ready))
        return Error(ECHILD, fmt::format("the frozen copy of process {} died", pid_));
    PageSource source(std::move(copy_commands_), std::move(copy_pages_),
                      static_cast<pid_t>(answer->value));
    source.set_scans(copy_has_device_ && can(agent::Feature::scan));
    source.set_typed(is_typed_);
    source.set_silence(silence_ns_);
    return source;
}

Result<PageSource> AgentSession::serve(int device)
{
    Result<Channel> channel = make_channel();
    if (!channel)
        return channel.error();
    const int fds[3] = {channel->their_commands.get(), channel->their_pipe.get(), device};
    const std::span<const int> sent_fds(fds, device >= 0 ? 3 : 2);
    if (Result<void> sent = send(agent::ServeRequest{}, sent_fds); !sent)
        return sent.error();
    PageSource source(std::move(channel->commands), std::move(channel->pipe), pid_);
    source.set_program_serves();
    source.set_typed(is_typed_);
    source.set_silence(silence_ns_);
    return source;
}

Result<void> AgentSession::served()
{
    Result<Reply> answer = reply(Op::serve);
    if (!answer)
        return answer.error();
    if (answer->result < 0)
        return Error::from_errno("reading the program's memory", static_cast<int>(-answer->result));
    return {};
}

// Earlier requests that were given up are answered first.
Result<void> AgentSession::await_resumed()
{
    Reply answer = {};
    if (!is_understood_)
        return {}; // it resumes when we disconnect
    // A process not yet in its handler may be in the kernel indefinitely (vfork); it finds later
    // that the request is gone.
    constexpr uint64_t patience_ns = 5'000'000'000;
    expect(heard_ ? silence_ns_ : std::min(silence_ns_, patience_ns));
    do {
        // A process stopped by a signal resumes once it is continued.
        if (Result<void> got = packet(&answer, sizeof(answer), 1); !got)
            return got.error().code() == EBUSY && is_stopped() ? Result<void>() : got;
        if (answer.magic == agent::protocol_magic && answer.op == Op::called_off)
            return called_off_after(pid_, answer.value);
    } while (answer.magic != agent::protocol_magic || answer.op != Op::resume);
    return {};
}

void AgentSession::let_go()
{
    static_cast<void>(send(agent::ResumeRequest{})); // a dead process needs no release
}

Result<void> AgentSession::callbacks_done()
{
    Reply done = {};
    expect(callbacks_limit_ns);
    if (!packet(&done, sizeof(done)) || done.op != Op::done || done.result == 0)
        return {};
    return Error(static_cast<int>(-done.result),
                 fmt::format("process {}: a callback failed after the checkpoint; the process has "
                             "been killed",
                             pid_));
}

} // namespace cryo::capture
