// SPDX-License-Identifier: Apache-2.0
// The part of a session in which the program's agent tracks changes of its memory and copies
// changed pages.
#include "base/passing.hpp"
#include "capture/session.hpp"

#include <cerrno>
#include <cstring>
#include <sys/socket.h>

namespace cryo::capture {

using agent::Op;
using agent::Reply;

namespace {

// Receives a reply that may carry a descriptor.
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

Result<TrackerLink> AgentSession::tracker(agent::TrackerKind wanted)
{
    using agent::Feature;
    using agent::TrackerKind;
    constexpr size_t size_before = 24; // of TrackerFacts, in older agents
    TrackerLink link;
    if (!connection_->can(Feature::tracker) ||
        (!connection_->can(Feature::soft_dirty) && wanted == TrackerKind::soft_dirty))
        return link;
    if (Result<void> sent = connection_->send(agent::TrackerRequest{.kind = wanted}); !sent)
        return sent.error();
    connection_->expect(connection_->silence_ns());
    if (Result<void> arrived = connection_->await_packet(); !arrived)
        return arrived.error();
    Result<Reply> answer = receive(connection_->fd(), link.fd);
    if (!answer)
        return answer.error();
    agent::TrackerFacts facts;
    if (Result<void> got = connection_->packet(&facts, sizeof(facts), size_before); !got)
        return got.error();
    if (answer->result < 0)
        return Error::from_errno("userfaultfd", static_cast<int>(-answer->result));
    memcpy(link.token.data(), facts.token, sizeof(facts.token));
    if (link.fd)
        link.kind =
            connection_->can(Feature::soft_dirty) ? facts.kind : TrackerKind::write_protection;
    link.marks = facts.marks;
    link.notes = facts.notes;
    link.mark = facts.mark;
    link.changes = facts.changes;
    return link;
}

Result<void> AgentSession::set_watched(const std::array<uint8_t, 16> &token, uint32_t notes)
{
    agent::WatchedRequest request = {.notes = notes};
    static_assert(sizeof(request.token) == sizeof(token));
    memcpy(request.token, token.data(), token.size());
    return watch(request);
}

Result<void> AgentSession::stop_watching(uint32_t notes)
{
    if (!connection_->can(agent::Feature::tracker))
        return {};
    return watch({.flags = agent::WatchedRequest::is_over, .notes = notes});
}

Result<void> AgentSession::watch(const agent::WatchedRequest &request)
{
    if (Result<void> sent = connection_->send(request); !sent)
        return sent;
    Result<Reply> answer = connection_->reply(Op::watched);
    if (!answer)
        return answer.error();
    if (answer->result < 0)
        return Error::from_errno("userfaultfd", static_cast<int>(-answer->result));
    return {};
}

Result<void> AgentSession::stage(int file, uint64_t offset, const std::vector<Run> &runs)
{
    if (!connection_->can(agent::Feature::stage))
        return Error(EOPNOTSUPP, "the program's agent is of an earlier release");
    if (runs.empty())
        return {};
    const agent::StageRequest request = {.count = runs.size(), .offset = offset};
    if (Result<void> sent = connection_->send(request, {{file}}); !sent)
        return sent;
    std::vector<agent::StagedRun> part;
    for (size_t i = 0; i < runs.size(); i++) {
        part.push_back({RemoteAddress(runs[i].start), RemoteAddress(runs[i].end)});
        if (part.size() < agent::staged_at_once && i + 1 < runs.size())
            continue;
        const std::span<const char> bytes(reinterpret_cast<const char *>(part.data()),
                                          part.size() * sizeof(part[0]));
        if (Result<void> sent = connection_->send_rest(bytes); !sent)
            return sent;
        part.clear();
    }
    Result<Reply> answer = connection_->reply(Op::stage);
    if (!answer)
        return answer.error();
    if (answer->result < 0)
        return Error::from_errno("copying changed pages", static_cast<int>(-answer->result));
    if (answer->value != size_of(runs))
        return Error(EPROTO, "copying changed pages: some are missing");
    return {};
}

} // namespace cryo::capture
