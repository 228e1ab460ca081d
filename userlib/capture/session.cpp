// SPDX-License-Identifier: Apache-2.0
#include "capture/session.hpp"

#include "base/passing.hpp"

#include <algorithm>
#include <cerrno>
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

Result<AgentSession> AgentSession::enter(AgentDoor door)
{
    const pid_t pid = door.pid();
    Result<Fd> connection = std::move(door).enter();
    if (!connection)
        return connection.error();
    return AgentSession(std::move(*connection), pid);
}

Result<void> AgentSession::ask_to_resume(int why, int signal)
{
    return connection_->send(agent::ResumeRequest{.why = why, .signal = signal});
}

bool AgentSession::sends_itself_signals() const
{
    return connection_->can(agent::Feature::alive);
}

void AgentSession::say_alive()
{
    const agent::Outgoing packet(agent::AliveRequest{}, connection_->is_typed());
    if (connection_->can(agent::Feature::alive))
        send_with(connection_->fd(), packet.bytes(), {}, MSG_DONTWAIT);
}

Result<void> AgentSession::check_standing()
{
    if (!connection_->can(agent::Feature::alive))
        return {};
    if (Result<Reply> answer =
            connection_->ask(agent::AliveRequest{.flags = agent::AliveRequest::wants_reply});
        !answer)
        return answer.error();
    return {};
}

Result<void> AgentSession::ask_to_stop()
{
    return connection_->send(agent::StopRequest{});
}

namespace {

// The agent answers quickly, or never.
Result<void> await_answer(AgentConnection &connection, int milliseconds)
{
    pollfd answered = {connection.fd(), POLLIN, 0};
    int ready;
    do {
        ready = poll(&answered, 1, milliseconds);
    } while (ready < 0 && errno == EINTR);
    if (ready == 0 && is_stopped(connection.pid()))
        return connection.await_packet();
    if (ready == 0)
        return AgentDoor::silent(Proc(connection.pid()));
    return {};
}

} // namespace

Result<uint64_t> AgentSession::stop()
{
    // The agent itself gives up on a thread after five seconds.
    constexpr uint64_t least_ms = 6000;
    const uint64_t limit_ms = std::max(least_ms, connection_->silence_ns() / 1'000'000);
    if (Result<void> answered = await_answer(*connection_, static_cast<int>(limit_ms)); !answered)
        return answered.error();
    Result<Reply> answer = connection_->reply(Op::stop);
    if (!answer)
        return answer.error();
    switch (answer->result) {
    case 0:
        return answer->value;
    case -ETIMEDOUT:
        return Error(EBUSY, fmt::format("process {}: thread {} does not answer: it blocks the "
                                        "checkpoint signal or waits in the kernel (vfork, a dead "
                                        "file server); the program goes on",
                                        pid(), answer->value));
    case -EPERM:
        return Error(EPERM, fmt::format("process {} is not dumpable: it has secrets to keep or was "
                                        "setuid",
                                        pid()));
    default:
        return Error::from_errno(fmt::format("stopping process {}", pid()),
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
    if (Result<void> sent = connection_->send(agent::ForkRequest{}, sent_fds); !sent)
        return sent;
    copy_commands_ = std::move(channel->commands);
    copy_pages_ = std::move(channel->pipe);
    copy_has_device_ = device >= 0;
    return {};
}

Result<PageSource> AgentSession::forked()
{
    Result<Reply> answer = connection_->reply(Op::fork);
    if (!answer)
        return answer.error();
    if (answer->result < 0) {
        copy_commands_.reset();
        copy_pages_.reset();
        return Error::from_errno(fmt::format("forking process {}", pid()),
                                 static_cast<int>(-answer->result));
    }
    // The copy sends a message once it has closed the program's descriptors.
    Reply ready = {};
    if (!await_readable(copy_commands_.get(), connection_->silence_ns()))
        return Error(EBUSY, fmt::format("the frozen copy of process {} does not begin: somebody "
                                        "has stopped it, or the machine has too much to do",
                                        pid()));
    if (receive_packet(copy_commands_.get(), room_in(ready)) != sizeof(ready))
        return Error(ECHILD, fmt::format("the frozen copy of process {} died", pid()));
    PageSource source(std::move(copy_commands_), std::move(copy_pages_),
                      static_cast<pid_t>(answer->value));
    source.set_scans(copy_has_device_ && connection_->can(agent::Feature::scan));
    source.set_typed(connection_->is_typed());
    source.set_silence(connection_->silence_ns());
    return source;
}

Result<PageSource> AgentSession::serve(int device)
{
    Result<Channel> channel = make_channel();
    if (!channel)
        return channel.error();
    const int fds[3] = {channel->their_commands.get(), channel->their_pipe.get(), device};
    const std::span<const int> sent_fds(fds, device >= 0 ? 3 : 2);
    if (Result<void> sent = connection_->send(agent::ServeRequest{}, sent_fds); !sent)
        return sent.error();
    PageSource source(std::move(channel->commands), std::move(channel->pipe), pid());
    source.set_program_serves();
    source.set_typed(connection_->is_typed());
    source.set_silence(connection_->silence_ns());
    return source;
}

Result<void> AgentSession::served()
{
    Result<Reply> answer = connection_->reply(Op::serve);
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
    if (!connection_->is_understood())
        return {}; // it resumes when we disconnect
    // A process not yet in its handler may be in the kernel indefinitely (vfork); it finds later
    // that the request is gone.
    constexpr uint64_t patience_ns = 5'000'000'000;
    connection_->expect(connection_->was_heard()
                            ? connection_->silence_ns()
                            : std::min(connection_->silence_ns(), patience_ns));
    do {
        // A process stopped by a signal resumes once it is continued.
        if (Result<void> got = connection_->packet(&answer, sizeof(answer), 1); !got)
            return got.error().code() == EBUSY && is_stopped(pid()) ? Result<void>() : got;
        if (answer.magic == agent::protocol_magic && answer.op == Op::called_off)
            return called_off_after(pid(), answer.value);
    } while (answer.magic != agent::protocol_magic || answer.op != Op::resume);
    return {};
}

void AgentSession::let_go()
{
    static_cast<void>(connection_->send(agent::ResumeRequest{})); // a dead process needs no release
}

Result<void> AgentSession::callbacks_done()
{
    Reply done = {};
    connection_->expect(callbacks_limit_ns);
    if (!connection_->packet(&done, sizeof(done)) || done.op != Op::done || done.result == 0)
        return {};
    return Error(static_cast<int>(-done.result),
                 fmt::format("process {}: a callback failed after the checkpoint; the process has "
                             "been killed",
                             pid()));
}

} // namespace cryo::capture
