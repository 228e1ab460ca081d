// SPDX-License-Identifier: Apache-2.0
// The other side of agent/descriptors.cpp.
#include "capture/session/agent_descriptors.hpp"

#include "base/passing.hpp"
#include "libcr.h"

#include <algorithm>
#include <cerrno>
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

Result<std::vector<Fd>> AgentDescriptors::get(const std::vector<int> &numbers)
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

Result<AgentDescriptors::TerminalContents> AgentDescriptors::terminal(int master)
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

Result<std::string> AgentDescriptors::queue(int descriptor)
{
    Result<Reply> answer = connection_->ask(agent::QueueRequest{.descriptor = descriptor});
    if (!answer)
        return answer.error();
    constexpr uint64_t most = 256 << 20;
    if (answer->value > most)
        return Error(E2BIG, fmt::format("process {}: the message queue at descriptor {} holds more "
                                        "than {} MiB",
                                        connection_->pid(), descriptor, most >> 20));
    std::string bytes(answer->value, 0);
    for (uint64_t at = 0; at < bytes.size(); at += agent::queue_part) {
        const uint64_t part = std::min<uint64_t>(agent::queue_part, bytes.size() - at);
        if (Result<void> got = connection_->packet(&bytes[at], part); !got)
            return got.error();
    }
    return bytes;
}

Result<std::vector<AgentDescriptors::Watched>> AgentDescriptors::watched()
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
                                            connection_->pid(), most >> 20));
        all.push_back({head.inode, head.device, std::string(path, head.length)});
    }
    return all;
}

} // namespace cryo::capture
