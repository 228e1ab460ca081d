// SPDX-License-Identifier: Apache-2.0
#include "capture/turn.hpp"

#include "capture/session.hpp"

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>

namespace cryo::capture {

namespace {

ucred peer_of(int fd)
{
    ucred peer = {};
    socklen_t size = sizeof(peer);
    getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size);
    return peer;
}

} // namespace

Result<Turn> Turn::take(std::string_view agent, bool holds_others)
{
    const std::string name = fmt::format("{}.turn", agent);
    sockaddr_un address = {};
    address.sun_family = AF_UNIX;
    memcpy(address.sun_path + 1, name.data(), std::min(name.size(), sizeof(address.sun_path) - 1));
    const auto length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
    const auto *at = reinterpret_cast<const sockaddr *>(&address);
    for (;;) {
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
        if (connect(turn.socket_.get(), at, length) != 0)
            continue; // it was given back this moment; or taken, and does not listen yet
        const ucred peer = peer_of(turn.socket_.get());
        // An address can be taken by anybody. Who may not save the process does not have its turn.
        if (peer.uid != 0 && peer.uid != geteuid())
            turn.socket_.reset();
        else
            turn.holder_ = peer.pid;
        if (holds_others)
            send(turn.socket_.get(), "n", 1, MSG_NOSIGNAL); // if it fails, the turn is over
        return turn;
    }
}

bool Turn::is_over(int milliseconds) const
{
    pollfd look = {socket_.get(), POLLIN, 0};
    return poll(&look, 1, milliseconds) > 0;
}

bool Turn::is_wanted_in_need()
{
    if (!socket_ || holder_ != 0)
        return false;
    for (;;) {
        Fd other(accept4(socket_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
        if (!other)
            break;
        waiting_.push_back(std::move(other));
    }
    return std::ranges::any_of(waiting_, [](const Fd &other) {
        char need;
        return recv(other.get(), &need, 1, MSG_PEEK | MSG_DONTWAIT) == 1;
    });
}

} // namespace cryo::capture
