// SPDX-License-Identifier: Apache-2.0
// The part of a session that has the program's agent watch for changes of its memory.
#include "base/passing.hpp"
#include "capture/session.hpp"

#include <cstring>

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
    std::vector<Fd> fds;
    const ssize_t n = receive_with(from, room_in(answer), fds);
    if (!fds.empty())
        fd = std::move(fds.front());
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
    return watch(command);
}

Result<void> AgentSession::stop_watching()
{
    if (version_ < first_with_tracker)
        return {};
    Command command = {agent::protocol_magic, agent::protocol_version, Op::watched, {}};
    command.arg[2] = 1;
    return watch(command);
}

Result<void> AgentSession::watch(const Command &command)
{
    if (Result<void> sent = send(command); !sent)
        return sent;
    Result<Reply> answer = reply(Op::watched);
    if (!answer)
        return answer.error();
    if (answer->result < 0)
        return Error::from_errno("userfaultfd", static_cast<int>(-answer->result));
    return {};
}

} // namespace cryo::capture
