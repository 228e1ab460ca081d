// SPDX-License-Identifier: Apache-2.0
#include "capture/session/turn.hpp"

#include "capture/session/session.hpp"

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <tuple>
#include <unistd.h>
#include <utility>

namespace cryo::capture {

namespace {

ucred peer_of(int fd)
{
    ucred peer = {};
    socklen_t size = sizeof(peer);
    getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size);
    return peer;
}

// Whatever it may have sent before.
bool has_hung_up(int fd)
{
    pollfd look = {fd, 0, 0};
    return poll(&look, 1, 0) > 0;
}

} // namespace

bool Turn::Waiter::is_ours() const
{
    return uid == geteuid();
}

Result<Turn> Turn::take(std::string_view agent, std::span<const char> word)
{
    const std::string name = fmt::format("{}.turn", agent);
    sockaddr_un address = {};
    address.sun_family = AF_UNIX;
    memcpy(address.sun_path + 1, name.data(), std::min(name.size(), sizeof(address.sun_path) - 1));
    const auto length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
    const auto *at = reinterpret_cast<const sockaddr *>(&address);
    for (int tries = 0;; tries++) {
        Turn turn;
        turn.socket_.reset(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
        if (!turn.socket_)
            return Error::from_errno("socket", errno);
        if (bind(turn.socket_.get(), at, length) == 0) {
            if (listen(turn.socket_.get(), SOMAXCONN) != 0)
                return Error::from_errno("listening at an address of our own", errno);
            return turn;
        }
        if (errno != EADDRINUSE)
            return Error::from_errno("taking an address", errno);
        if (connect(turn.socket_.get(), at, length) != 0) {
            // The address was released just now, or is bound but not listening yet. A socket that
            // never listens only blocks the name: a checkpoint is in that state for microseconds.
            constexpr int most_tries = 200;
            constexpr timespec pause = {0, 5'000'000};
            if (tries == most_tries)
                return Turn();
            nanosleep(&pause, nullptr);
            continue;
        }
        const ucred peer = peer_of(turn.socket_.get());
        // Anyone can bind the address; a user who may not save the process has no claim to it.
        if (peer.uid != 0 && peer.uid != geteuid())
            turn.socket_.reset();
        else
            std::tie(turn.holder_, turn.holder_uid_) = std::pair(peer.pid, peer.uid);
        if (turn.socket_ && !word.empty())
            send(turn.socket_.get(), word.data(), word.size(), MSG_NOSIGNAL); // fails: released
        return turn;
    }
}

// Waiters now connect to this process.
Result<Turn> Turn::adopt(Fd socket)
{
    if (listen(socket.get(), SOMAXCONN) != 0)
        return Error::from_errno("listening at an address of another checkpoint", errno);
    Turn turn;
    turn.socket_ = std::move(socket);
    return turn;
}

// Everybody can connect, as often as they like, and never leave.
std::vector<Turn::Waiter> &Turn::waiters()
{
    constexpr int most_at_once = 16;
    constexpr ptrdiff_t most_ours = 256;
    constexpr ptrdiff_t most_of_another = 8; // user
    constexpr size_t most = 320;
    std::erase_if(waiting_, [](const Waiter &waiter) {
        return !waiter.connection || (!waiter.is_ours() && has_hung_up(waiter.connection.get()));
    });
    for (int i = 0; socket_ && holder_ == 0 && i < most_at_once; i++) {
        Fd other(accept4(socket_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
        if (!other)
            break;
        const ucred peer = peer_of(other.get());
        Waiter waiter = {std::move(other), peer.pid, peer.uid, 0, false};
        const ptrdiff_t there = std::ranges::count(waiting_, waiter.uid, &Waiter::uid);
        // One too many is hung up on, and may come again.
        if (there < (waiter.is_ours() ? most_ours : most_of_another) && waiting_.size() < most)
            waiting_.push_back(std::move(waiter));
    }
    return waiting_;
}

void Turn::add_to(std::vector<pollfd> &look) const
{
    look.push_back({socket_.get(), POLLIN, 0});
    for (const Waiter &waiter : waiting_)
        look.push_back({waiter.is_ours() ? waiter.connection.get() : -1, POLLIN, 0});
}

} // namespace cryo::capture
