// SPDX-License-Identifier: Apache-2.0
// The part of a session that has the program's agent watch for changes of its memory.
#include "capture/session.hpp"

#include <cerrno>
#include <cstring>
#include <fmt/format.h>
#include <sys/socket.h>

namespace cryo::capture {

using agent::Command;
using agent::Op;
using agent::Reply;

namespace {

constexpr uint16_t first_with_tracker = 9;

// A reply that may have a descriptor with it.
Result<Reply> receive(int from, Fd &fd)
{
    Reply answer = {};
    iovec part = {&answer, sizeof(answer)};
    alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))];
    msghdr message = {};
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    message.msg_control = control;
    message.msg_controllen = sizeof(control);
    ssize_t n;
    do {
        n = recvmsg(from, &message, MSG_CMSG_CLOEXEC);
    } while (n < 0 && errno == EINTR);
    const cmsghdr *head = n > 0 ? CMSG_FIRSTHDR(&message) : nullptr;
    if (head != nullptr && head->cmsg_level == SOL_SOCKET && head->cmsg_type == SCM_RIGHTS) {
        int got;
        memcpy(&got, CMSG_DATA(head), sizeof(got));
        fd.reset(got);
    }
    if (n != sizeof(answer) || answer.magic != agent::protocol_magic || answer.op != Op::tracker)
        return Error(EPROTO, "the program's agent answers in another protocol");
    return answer;
}

} // namespace

Result<TrackerLink> AgentSession::tracker(bool make)
{
    TrackerLink link;
    if (version_ < first_with_tracker)
        return link;
    if (Result<void> sent = send(Op::tracker, {}, make ? 1 : 0); !sent)
        return sent.error();
    Result<Reply> answer = receive(connection_.get(), link.fd);
    if (!answer)
        return answer.error();
    agent::TrackerFacts facts;
    if (Result<void> got = packet(&facts, sizeof(facts)); !got)
        return got.error();
    if (answer->result < 0)
        return Error::from_errno("userfaultfd", static_cast<int>(-answer->result));
    memcpy(link.token.data(), facts.token, sizeof(facts.token));
    return link;
}

Result<void> AgentSession::set_watched(const std::array<uint8_t, 16> &token)
{
    Command command = {agent::protocol_magic, agent::protocol_version, Op::watched, {}};
    memcpy(command.arg, token.data(), token.size());
    if (Result<void> sent = send(command); !sent)
        return sent;
    Result<Reply> answer = reply(Op::watched);
    if (!answer)
        return answer.error();
    if (answer->result < 0)
        return Error::from_errno("userfaultfd", static_cast<int>(-answer->result));
    return {};
}

Result<void> AgentSession::stop_watching()
{
    if (version_ < first_with_tracker)
        return {};
    Command command = {agent::protocol_magic, agent::protocol_version, Op::watched, {}};
    command.arg[2] = 1;
    if (Result<void> sent = send(command); !sent)
        return sent;
    Result<Reply> answer = reply(Op::watched);
    return answer ? Result<void>() : Result<void>(answer.error());
}

} // namespace cryo::capture
