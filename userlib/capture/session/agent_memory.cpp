// SPDX-License-Identifier: Apache-2.0
#include "capture/session/agent_memory.hpp"

#include "base/passing.hpp"
#include "image/format.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/socket.h>
#include <unistd.h>

namespace cryo::capture {

using agent::Op;
using agent::Reply;

namespace {

constexpr int page_pipe_size = 1 << 20;

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

// Our copies of the sent ends are closed here: only the copy has them, so we notice its death.
Result<void> AgentMemory::ask_to_fork(int device)
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

Result<PageSource> AgentMemory::forked()
{
    Result<Reply> answer = connection_->reply(Op::fork);
    if (!answer)
        return answer.error();
    if (answer->result < 0) {
        copy_commands_.reset();
        copy_pages_.reset();
        return Error::from_errno(fmt::format("forking process {}", connection_->pid()),
                                 static_cast<int>(-answer->result));
    }
    // The copy sends a message once it has closed the program's descriptors.
    Reply ready = {};
    if (!await_readable(copy_commands_.get(), connection_->silence_ns()))
        return Error(EBUSY, fmt::format("the frozen copy of process {} does not start: it was "
                                        "stopped, or the machine is overloaded",
                                        connection_->pid()));
    if (receive_packet(copy_commands_.get(), room_in(ready)) != sizeof(ready))
        return Error(ECHILD, fmt::format("the frozen copy of process {} died", connection_->pid()));
    PageSource source(std::move(copy_commands_), std::move(copy_pages_),
                      static_cast<pid_t>(answer->value));
    source.set_scans(copy_has_device_ && connection_->can(agent::Feature::scan));
    source.set_typed(connection_->is_typed());
    source.set_silence(connection_->silence_ns());
    return source;
}

Result<PageSource> AgentMemory::serve(int device)
{
    Result<Channel> channel = make_channel();
    if (!channel)
        return channel.error();
    const int fds[3] = {channel->their_commands.get(), channel->their_pipe.get(), device};
    const std::span<const int> sent_fds(fds, device >= 0 ? 3 : 2);
    if (Result<void> sent = connection_->send(agent::ServeRequest{}, sent_fds); !sent)
        return sent.error();
    PageSource source(std::move(channel->commands), std::move(channel->pipe), connection_->pid());
    source.set_program_serves();
    source.set_typed(connection_->is_typed());
    source.set_silence(connection_->silence_ns());
    return source;
}

Result<void> AgentMemory::served()
{
    Result<Reply> answer = connection_->reply(Op::serve);
    if (!answer)
        return answer.error();
    if (answer->result < 0)
        return Error::from_errno("reading the program's memory", static_cast<int>(-answer->result));
    return {};
}

Result<TrackerLink> AgentMemory::tracker(agent::TrackerKind wanted)
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

Result<void> AgentMemory::set_watched(const std::array<uint8_t, 16> &token, uint32_t notes)
{
    agent::WatchedRequest request = {.notes = notes};
    static_assert(sizeof(request.token) == sizeof(token));
    memcpy(request.token, token.data(), token.size());
    return watch(request);
}

Result<void> AgentMemory::stop_watching(uint32_t notes)
{
    if (!connection_->can(agent::Feature::tracker))
        return {};
    return watch({.flags = agent::WatchedRequest::is_over, .notes = notes});
}

Result<void> AgentMemory::watch(const agent::WatchedRequest &request)
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

Result<void> AgentMemory::stage(int file, uint64_t offset, const std::vector<Run> &runs)
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

Result<std::vector<Run>> AgentMemory::touched(RemoteAddress start, RemoteAddress end)
{
    if (!connection_->can(agent::Feature::touched))
        return Error(EOPNOTSUPP, "the program's agent is of an earlier release");
    std::vector<Run> found;
    for (RemoteAddress at = start; at < end;) {
        const uint64_t count = std::min((end - at) / image::kPageSize, agent::touched_at_once);
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
        for (uint64_t i = 0; i < count; i++, at += image::kPageSize) {
            if ((bits[i / 8] >> (i % 8) & 1) == 0)
                continue;
            const uint64_t page = at.number();
            if (!found.empty() && found.back().end == page)
                found.back().end = page + image::kPageSize;
            else
                found.push_back({page, page + image::kPageSize});
        }
    }
    return found;
}

Result<std::vector<agent::Policy>>
AgentMemory::policies(const std::vector<RemoteAddress> &addresses)
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
