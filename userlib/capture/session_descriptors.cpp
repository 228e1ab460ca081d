// SPDX-License-Identifier: Apache-2.0
// The part of a session that transfers the program's descriptors (agent/descriptors.cpp), and
// queries what in the process does not belong to the program.
#include "base/passing.hpp"
#include "capture/session.hpp"
#include "libcr.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fmt/format.h>
#include <sys/socket.h>

namespace cryo::capture {

using agent::Op;
using agent::Reply;

namespace {

Result<void> receive_some(int from, std::vector<Fd> &to, size_t expected)
{
    Reply answer = {};
    const size_t before = to.size();
    const ssize_t n = receive_with(from, room_in(answer), to);
    if (n < 0)
        return Error::from_errno("looking at the program's descriptors", errno);
    const size_t came = to.size() - before;
    if (n != sizeof(answer) || answer.magic != agent::protocol_magic ||
        answer.op != Op::descriptors || came > expected)
        return Error(CR_EVERSION, "the program's agent answers in another protocol");
    if (answer.result < 0)
        return Error::from_errno("looking at the program's descriptors",
                                 static_cast<int>(-answer.result));
    if (came < expected)
        return Error(EMFILE, "the program has more descriptors than cr_checkpoint may open; raise "
                             "its limit (ulimit -n)");
    return {};
}

} // namespace

Result<std::vector<Fd>> AgentSession::descriptors(const std::vector<int> &numbers)
{
    std::vector<Fd> all;
    for (size_t at = 0; at < numbers.size();) {
        const int base = numbers[at];
        agent::DescriptorsRequest request = {.first = base};
        size_t count = 0;
        for (; at < numbers.size() && numbers[at] - base < agent::descriptors_at_once; at++) {
            const auto bit = static_cast<unsigned>(numbers[at] - base);
            request.wanted[bit / 64] |= uint64_t(1) << (bit % 64);
            count++;
        }
        if (Result<void> sent = connection_->send(request); !sent)
            return sent.error();
        connection_->expect(connection_->silence_ns());
        if (Result<void> arrived = connection_->await_packet(); !arrived)
            return arrived.error();
        if (Result<void> got = receive_some(connection_->fd(), all, count); !got)
            return got.error();
    }
    return all;
}

Result<AgentSession::TerminalContents> AgentSession::terminal(int master)
{
    if (Result<void> sent = connection_->send(agent::TerminalRequest{.master = master}); !sent)
        return sent.error();
    Result<Reply> answer = connection_->reply(Op::terminal);
    if (!answer)
        return answer.error();
    if (answer->result < 0)
        return Error::from_errno("reading what waits in a terminal",
                                 static_cast<int>(-answer->result));
    TerminalContents contents;
    contents.to_slave.resize(std::min<uint64_t>(answer->value, agent::terminal_most));
    contents.to_master.resize(std::min<uint64_t>(answer->count, agent::terminal_most));
    for (std::string *part : {&contents.to_slave, &contents.to_master}) {
        if (part->empty())
            continue;
        if (Result<void> got = connection_->packet(part->data(), part->size()); !got)
            return got.error();
    }
    return contents;
}

Result<std::string> AgentSession::queue(int descriptor)
{
    Result<Reply> answer = connection_->ask(agent::QueueRequest{.descriptor = descriptor});
    if (!answer)
        return answer.error();
    constexpr uint64_t most = 256 << 20;
    if (answer->value > most)
        return Error(E2BIG, fmt::format("process {}: the message queue at descriptor {} holds more "
                                        "than {} MiB",
                                        pid(), descriptor, most >> 20));
    std::string bytes(answer->value, 0);
    for (uint64_t at = 0; at < bytes.size(); at += agent::queue_part) {
        const uint64_t part = std::min<uint64_t>(agent::queue_part, bytes.size() - at);
        if (Result<void> got = connection_->packet(&bytes[at], part); !got)
            return got.error();
    }
    return bytes;
}

Result<std::vector<AgentSession::Watched>> AgentSession::watched()
{
    Result<Reply> answer = connection_->ask(agent::WatchesRequest{});
    if (!answer)
        return answer.error();
    constexpr uint64_t most_watches = 1 << 22;
    constexpr uint64_t most = 256 << 20; // bytes
    if (answer->count > most_watches)
        return connection_->other_protocol();
    uint64_t bytes = 0;
    std::vector<Watched> all;
    for (uint64_t i = 0; i < answer->count; i++) {
        agent::WatchedPath head = {};
        char path[4096];
        iovec parts[2] = {{&head, sizeof(head)}, {path, sizeof(path)}};
        msghdr message = {};
        message.msg_iov = parts;
        message.msg_iovlen = 2;
        if (Result<void> arrived = connection_->await_packet(); !arrived)
            return arrived.error();
        ssize_t n;
        do {
            n = recvmsg(connection_->fd(), &message, 0);
        } while (n < 0 && errno == EINTR);
        if (n < static_cast<ssize_t>(sizeof(head)) ||
            static_cast<size_t>(n) != sizeof(head) + head.length)
            return connection_->lost(n < 0 ? errno : 0);
        bytes += sizeof(Watched) + head.length;
        if (bytes > most)
            return Error(E2BIG, fmt::format("process {}: its inotify watches take more than {} MiB",
                                            pid(), most >> 20));
        all.push_back({head.inode, head.device, std::string(path, head.length)});
    }
    return all;
}

Result<std::vector<agent::IpcUse>> AgentSession::ipc()
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
                                            pid()));
    return all;
}

Result<std::vector<int16_t>> AgentSession::undo(int id, uint64_t semaphores)
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
            return Error::from_errno("trying what they are", static_cast<int>(-answer->result));
        if (Result<void> got = connection_->packet(&amounts[at], count * sizeof(amounts[0])); !got)
            return got.error();
        at += count;
    }
    return amounts;
}

Result<agent::OwnFacts> AgentSession::own()
{
    agent::OwnFacts facts;
    if (Result<Reply> answer = connection_->ask(agent::OwnRequest{}); !answer)
        return answer.error();
    if (Result<void> got = connection_->packet(&facts, sizeof(facts)); !got)
        return got.error();
    return facts;
}

Result<std::unique_ptr<agent::LodgerFacts>> AgentSession::lodger()
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
