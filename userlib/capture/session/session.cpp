// SPDX-License-Identifier: Apache-2.0
#include "capture/session/session.hpp"

#include "base/passing.hpp"
#include "libcr.h"
#include "look/memory_file.hpp"
#include "look/proc.hpp"

#include <algorithm>
#include <cerrno>
#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <string_view>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>
#include <utility>

namespace cryo::capture {

using agent::Op;
using agent::Reply;

AgentSession::AgentSession(Fd connection, pid_t pid)
    : connection_(std::make_unique<AgentConnection>(std::move(connection), pid)),
      facts_(*connection_), descriptors_(*connection_), memory_(*connection_),
      began_as_roots_(geteuid() == 0 && is_roots())
{}

Result<AgentSession> AgentSession::enter(AgentDoor door)
{
    const pid_t pid = door.pid();
    Result<Fd> connection = std::move(door).enter();
    if (!connection)
        return connection.error();
    return AgentSession(std::move(*connection), pid);
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

namespace {

Error failure(pid_t pid, int kind, int code)
{
    switch (kind) {
    case CR_CHECKPOINT_TEMP_FAILURE:
        return Error(code, fmt::format("process {} cannot be saved now: one of its callbacks asks "
                                       "to try again later (error {})",
                                       pid, code));
    case CR_CHECKPOINT_PERM_FAILURE:
        return Error(code, fmt::format("process {} cannot be saved any more: one of its callbacks "
                                       "says so (error {}); the process has been killed",
                                       pid, code));
    default:
        if (code == ENOMEM)
            return Error(code, fmt::format("process {} has no thread that could run its callbacks "
                                           "of THREAD context: there was no memory for one, or it "
                                           "was forked in such a callback",
                                           pid));
        return Error(code, fmt::format("process {}: a thread does not begin its callbacks; it "
                                       "blocks the checkpoint signal or waits in the kernel",
                                       pid));
    }
}

} // namespace

Result<void> AgentSession::ask_to_prepare(const agent::RequestInfo &request)
{
    if (Result<void> sent =
            connection_->send(agent::PrepareRequest{.features = agent::all_features});
        !sent)
        return sent;
    return connection_->send_rest(bytes_of(request));
}

Result<AgentSession::Prepared> AgentSession::prepared()
{
    Reply answer = {};
    connection_->expect(connection_->silence_ns());
    const Result<void> got = connection_->packet(&answer, sizeof(answer));
    if (!got && (got.error().code() == CR_EVERSION || got.error().code() == ETIME))
        return got.error();
    if (!got)
        return Error(
            ESRCH,
            fmt::format("process {} ended, or executed another program, before it could be saved",
                        pid()),
            Reason::has_ended);
    if (answer.magic != agent::protocol_magic)
        return connection_->other_protocol();
    connection_->note_release(answer);
    switch (answer.op) {
    case Op::accepted:
        return Prepared{.op = answer.op};
    case Op::forward:
        return Prepared{.op = answer.op,
                        .scope = static_cast<int>(answer.count),
                        .target = static_cast<pid_t>(answer.value)};
    case Op::prepare:
        if (answer.result == 0)
            return Prepared{.op = answer.op,
                            .callbacks = (answer.value & agent::with_callbacks) != 0};
        if ((answer.value & 0xff) == CR_CHECKPOINT_OMIT)
            return Prepared{.op = answer.op, .omits = true};
        return failure(pid(), static_cast<int>(answer.value & 0xff),
                       static_cast<int>(-answer.result));
    case Op::called_off:
        return called_off_after(pid(), answer.value);
    default:
        return connection_->other_protocol();
    }
}

Result<void> AgentSession::ask_to_stop()
{
    return connection_->send(agent::StopRequest{});
}

bool AgentSession::has_answer(int milliseconds) const
{
    pollfd look = {connection_->fd(), POLLIN, 0};
    return poll(&look, 1, milliseconds) > 0;
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
        return Error(
            EPERM,
            fmt::format(
                "process {} is not dumpable: it protects secrets (PR_SET_DUMPABLE) or was setuid; "
                "such programs are saved by root only, and only those that are root's",
                pid()));
    default:
        return Error::from_errno(fmt::format("stopping process {}", pid()),
                                 static_cast<int>(-answer->result));
    }
}

bool AgentSession::is_roots() const
{
    ucred peer = {};
    socklen_t size = sizeof(peer);
    const Result<std::string> status = Proc(pid()).read("status");
    const std::string_view ids = status ? field(*status, "Uid") : std::string_view();
    return getsockopt(fd(), SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0 && peer.uid == 0 &&
           ids.starts_with("0\t0\t0\t"); // real, effective, saved
}

// The memory is opened before the agent answers, and so is that of the program that answers. But a
// process of another user can leave the answers to a helper, and execute a program of root's, whose
// memory it would be then: the helper would have us write there. So the process has to be root's,
// and to have been so from the beginning.
Result<void> AgentSession::prove_right()
{
    if (!connection_->can(agent::Feature::prove) || geteuid() != 0)
        return Error(EPERM, "only root may save what is not dumpable");
    const Result<Fd> memory = Proc(pid()).open("mem", O_RDWR);
    if (!memory)
        return memory.error();
    if (!began_as_roots_ || !is_roots())
        return Error(EPERM, "only programs of root's are saved that are not dumpable");
    const Result<Reply> place = connection_->ask(agent::ProveRequest{});
    if (!place)
        return place.error();
    uint64_t word = 0;
    if (getrandom(&word, sizeof(word), 0) != sizeof(word))
        return Error::from_errno("getrandom", errno);
    if (!write_at(*memory, RemoteAddress(place->value), &word, sizeof(word)))
        return Error::from_errno("writing to memory", errno);
    const Result<Reply> taken = connection_->ask(agent::ProveRequest{.written = word});
    return taken ? Result<void>() : taken.error();
}

Result<void> AgentSession::ask_to_resume(int why, int signal)
{
    return connection_->send(agent::ResumeRequest{.why = why, .signal = signal});
}

bool AgentSession::sends_itself_signals() const
{
    return connection_->can(agent::Feature::alive);
}

// Earlier requests that were given up are answered first.
Result<void> AgentSession::await_resumed()
{
    Reply answer = {};
    if (!connection_->is_understood())
        return {}; // it resumes when we disconnect
    // A process not yet in its handler may be in the kernel indefinitely (vfork); it finds later
    // that the request is gone.
    connection_->expect(connection_->was_heard()
                            ? connection_->silence_ns()
                            : std::min(connection_->silence_ns(), first_answer_ns));
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
