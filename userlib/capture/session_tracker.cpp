// SPDX-License-Identifier: Apache-2.0
// The part of a session in which the program's agent tracks changes of its memory and copies
// changed pages.
#include "base/passing.hpp"
#include "capture/session.hpp"

#include <algorithm>
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

Result<std::vector<Run>> AgentSession::touched(RemoteAddress start, RemoteAddress end)
{
    if (!connection_->can(agent::Feature::touched))
        return Error(EOPNOTSUPP, "the program's agent is of an earlier release");
    std::vector<Run> found;
    for (RemoteAddress at = start; at < end;) {
        const uint64_t count = std::min((end - at) / 4096, agent::touched_at_once);
        if (Result<void> sent =
                connection_->send(agent::TouchedRequest{.start = at, .count = count});
            !sent)
            return sent.error();
        Result<Reply> answer = connection_->reply(Op::touched);
        if (!answer)
            return answer.error();
        if (answer->result < 0)
            return Error::from_errno("mincore", static_cast<int>(-answer->result));
        std::vector<uint8_t> bits((count + 7) / 8);
        if (Result<void> got = connection_->packet(bits.data(), bits.size()); !got)
            return got.error();
        for (uint64_t i = 0; i < count; i++, at += 4096) {
            if ((bits[i / 8] >> (i % 8) & 1) == 0)
                continue;
            const uint64_t page = at.number();
            if (!found.empty() && found.back().end == page)
                found.back().end = page + 4096;
            else
                found.push_back({page, page + 4096});
        }
    }
    return found;
}

Result<std::vector<agent::Policy>>
AgentSession::policies(const std::vector<RemoteAddress> &addresses)
{
    std::vector<agent::Policy> all;
    if (!connection_->can(agent::Feature::policies))
        return all;
    all.resize(addresses.size());
    for (size_t at = 0; at < all.size();) {
        const size_t count = std::min<size_t>(agent::policies_at_once, all.size() - at);
        Result<void> asked = connection_->send(agent::PoliciesRequest{});
        const std::span<const char> bytes(reinterpret_cast<const char *>(&addresses[at]),
                                          count * sizeof(addresses[0]));
        if (asked)
            asked = connection_->send_rest(bytes);
        Result<Reply> answer = asked ? connection_->reply(Op::policies) : asked.error();
        if (!answer)
            return answer.error();
        if (Result<void> got = connection_->packet(&all[at], count * sizeof(all[0])); !got)
            return got.error();
        at += count;
    }
    return all;
}

} // namespace cryo::capture
