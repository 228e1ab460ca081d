// SPDX-License-Identifier: Apache-2.0
#include "coord/leashes.hpp"

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <poll.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <utility>

namespace cryo::coord {

namespace {

// The kernel knows the process itself since 6.5. Before, there is only its number, which is another
// process's perhaps, unless this one is there still, and so its end of the connection.
Fd process_at(int socket, int pid)
{
    int process = -1;
    socklen_t size = sizeof(process);
    constexpr int so_peerpidfd = 77;
    if (getsockopt(socket, SOL_SOCKET, so_peerpidfd, &process, &size) == 0)
        return Fd(process);
    return errno == ENOPROTOOPT ? Fd(static_cast<int>(syscall(SYS_pidfd_open, pid, 0))) : Fd();
}

bool has_gone(int socket)
{
    pollfd look = {socket, POLLRDHUP, 0};
    return poll(&look, 1, 0) != 0;
}

} // namespace

void Leashes::hold(const std::shared_ptr<Channel> &channel)
{
    const int pid = peer_of(channel->descriptor()).pid;
    Fd process = process_at(channel->descriptor(), pid);
    if (!wanted_) { // no leash is needed here
        channel->send(FrameKind::welcome, {});
        channel->close_when_sent();
        return;
    }
    if (!process || has_gone(channel->descriptor())) {
        channel->refuse();
        return;
    }
    had_any_ = true;
    const Channel *at = channel.get();
    channel->on_frame = [at, this](FrameKind, std::string_view) { let_go(at); };
    channel->on_end = [at, this] { let_go(at); };
    all_.emplace(at, One{channel, pid, std::move(process)});
    channel->send(FrameKind::leash, {});
}

bool Leashes::holds(int pid) const
{
    return std::ranges::any_of(all_, [pid](const auto &one) { return one.second.pid == pid; });
}

// Usually the process has ended. One that has closed its end would not be reached any more.
void Leashes::let_go(const Channel *channel)
{
    const auto at = all_.find(channel);
    if (at == all_.end())
        return;
    const One one = std::move(at->second);
    all_.erase(at);
    syscall(SYS_pidfd_send_signal, one.process.get(), SIGKILL, nullptr, 0);
    one.channel->close();
    if (on_end)
        on_end();
}

} // namespace cryo::coord
