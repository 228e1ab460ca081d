// SPDX-License-Identifier: Apache-2.0
#include "capture/session/agent_facts.hpp"

#include "sys/aio_ring.hpp"

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <fmt/format.h>
#include <sys/socket.h>

namespace cryo::capture {

using agent::Op;
using agent::Reply;

Result<std::vector<agent::ThreadFacts>> AgentFacts::threads()
{
    Result<Reply> answer = connection_->ask(agent::ThreadsRequest{});
    if (!answer)
        return answer.error();
    constexpr uint64_t most = 1 << 16; // no agent stops more threads
    if (answer->count > most)
        return connection_->other_protocol();
    std::vector<agent::ThreadFacts> all;
    for (uint64_t i = 0; i < answer->count; i++) {
        agent::ThreadFacts one;
        constexpr size_t least = offsetof(agent::ThreadFacts, securebits);
        if (Result<void> got = connection_->packet(&one, sizeof(one), least); !got)
            return got.error();
        all.push_back(one);
    }
    return all;
}

Result<agent::ProcessFacts> AgentFacts::process()
{
    agent::ProcessFacts facts;
    if (Result<Reply> answer = connection_->ask(agent::ProcessRequest{}); !answer)
        return answer.error();
    constexpr size_t least = offsetof(agent::ProcessFacts, mlockall);
    if (Result<void> got = connection_->packet(&facts, sizeof(facts), least); !got)
        return got.error();
    return facts;
}

Result<Actions> AgentFacts::actions()
{
    Actions all;
    if (Result<Reply> answer = connection_->ask(agent::ActionsRequest{}); !answer)
        return answer.error();
    if (Result<void> got = connection_->packet(all.data(), sizeof(all)); !got)
        return got.error();
    return all;
}

Result<agent::TimerFacts> AgentFacts::timer(int id)
{
    Result<Reply> answer = connection_->ask(agent::TimerRequest{.id = id});
    if (!answer)
        return answer.error();
    agent::TimerFacts facts;
    if (Result<void> got = connection_->packet(&facts, sizeof(facts)); !got)
        return got.error();
    return facts;
}

Result<AgentFacts::Aio> AgentFacts::aio(RemoteAddress ring, uint64_t bytes, uint64_t idle)
{
    constexpr size_t numbers = sizeof(io_event) / sizeof(uint64_t);
    Aio found;
    if (!connection_->can(agent::Feature::aio)) {
        found.error = EOPNOTSUPP;
        return found;
    }
    if (Result<void> sent =
            connection_->send(agent::AioRequest{.ring = ring, .bytes = bytes, .idle = idle});
        !sent)
        return sent.error();
    Result<Reply> answer = connection_->reply(Op::aio);
    if (!answer)
        return answer.error();
    found.error = static_cast<int>(-answer->result);
    if (found.error != 0)
        return found;
    found.head = static_cast<uint32_t>(answer->value);
    found.tail = static_cast<uint32_t>(answer->value >> 32);
    const auto slots = static_cast<uint32_t>(sys::aio_slots(bytes));
    if (found.head >= slots || found.tail >= slots)
        return connection_->other_protocol();
    const uint32_t count = (found.tail + slots - found.head) % slots;
    if (count > agent::aio_most)
        return connection_->other_protocol();
    found.events.resize(count * numbers);
    for (size_t at = 0; at < count; at += agent::aio_at_once) {
        const size_t part = std::min<size_t>(agent::aio_at_once, count - at);
        if (Result<void> got =
                connection_->packet(&found.events[at * numbers], part * sizeof(io_event));
            !got)
            return got.error();
    }
    return found;
}

Result<std::vector<agent::IpcUse>> AgentFacts::ipc()
{
    std::vector<agent::IpcUse> all;
    if (!connection_->can(agent::Feature::ipc))
        return all;
    if (Result<void> asked = connection_->send(agent::IpcRequest{}); !asked)
        return asked.error();
    Result<Reply> answer = connection_->reply(Op::ipc);
    if (!answer)
        return answer.error();
    constexpr uint64_t most = 1 << 16; // no agent remembers more
    if (answer->count > most)
        return connection_->other_protocol();
    for (uint64_t i = 0; i < answer->count; i++) {
        agent::IpcUse some[agent::ipc_at_once];
        if (Result<void> arrived = connection_->await_packet(); !arrived)
            return arrived.error();
        ssize_t n;
        do {
            n = recv(connection_->fd(), some, sizeof(some), 0);
        } while (n < 0 && errno == EINTR);
        if (n <= 0 || n % static_cast<ssize_t>(sizeof(some[0])) != 0)
            return connection_->lost(n < 0 ? errno : 0);
        all.insert(all.end(), some, some + static_cast<size_t>(n) / sizeof(some[0]));
    }
    if (answer->result == -EOVERFLOW)
        return Error(EOVERFLOW, fmt::format("process {} uses more System V objects than Cryo "
                                            "remembers; it cannot be saved",
                                            connection_->pid()));
    return all;
}

Result<std::vector<int16_t>> AgentFacts::undo(int id, uint64_t semaphores)
{
    if (!connection_->can(agent::Feature::undo))
        return Error(EOPNOTSUPP, "the program's agent is of an earlier release");
    std::vector<int16_t> amounts(semaphores);
    for (uint64_t at = 0; at < semaphores;) {
        const uint64_t count = std::min(semaphores - at, agent::undo_at_once);
        const agent::UndoRequest request = {
            .id = id, .first = static_cast<uint32_t>(at), .count = count};
        if (Result<void> sent = connection_->send(request); !sent)
            return sent.error();
        Result<Reply> answer = connection_->reply(Op::undo);
        if (!answer)
            return answer.error();
        if (answer->result == -EXDEV)
            return Error(EXDEV, "threads of the process were made without CLONE_SYSVSEM");
        if (answer->result < 0)
            return Error::from_errno("finding the amounts that are undone",
                                     static_cast<int>(-answer->result));
        if (Result<void> got = connection_->packet(&amounts[at], count * sizeof(amounts[0])); !got)
            return got.error();
        at += count;
    }
    return amounts;
}

Result<agent::OwnFacts> AgentFacts::own()
{
    agent::OwnFacts facts;
    if (Result<Reply> answer = connection_->ask(agent::OwnRequest{}); !answer)
        return answer.error();
    if (Result<void> got = connection_->packet(&facts, sizeof(facts)); !got)
        return got.error();
    return facts;
}

Result<std::unique_ptr<agent::LodgerFacts>> AgentFacts::lodger()
{
    std::unique_ptr<agent::LodgerFacts> facts;
    Result<Reply> answer = connection_->ask(agent::LodgerRequest{});
    if (!answer && answer.error().code() == EOPNOTSUPP)
        return facts; // an agent from before the request existed
    if (!answer)
        return answer.error();
    if (answer->count == 0)
        return facts;
    facts = std::make_unique<agent::LodgerFacts>();
    if (Result<void> got = connection_->packet(facts.get(), sizeof(*facts)); !got)
        return got.error();
    return facts;
}

} // namespace cryo::capture
