// SPDX-License-Identifier: Apache-2.0
#include "restore/connected_pair.hpp"

#include "resources/socket/connect_lent.hpp"
#include "sys/raw.hpp"

#include <cerrno>
#include <chrono>
#include <fcntl.h>
#include <optional>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

namespace cryo::restore {

namespace {

using Clock = std::chrono::steady_clock;

// The next one that has connected, if that is the one that does it now. Any other is sent away.
std::optional<Fd> accept_from(pid_t pid, int listener)
{
    constexpr int moment_ms = 10;
    pollfd look = {listener, POLLIN, 0};
    if (poll(&look, 1, moment_ms) <= 0)
        return std::nullopt;
    Fd connection(accept4(listener, nullptr, nullptr, SOCK_CLOEXEC));
    ucred peer = {};
    socklen_t size = sizeof(peer);
    if (connection && getsockopt(connection.get(), SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0 &&
        peer.pid == pid && peer.uid == geteuid())
        return connection;
    return std::nullopt;
}

} // namespace

Result<ConnectedPair> connect_pair(int listener, const SocketName &address, int kind,
                                   image::Bytes caller, const CallerMaker &as)
{
    const Clock::time_point end = Clock::now() + std::chrono::seconds(5);
    ConnectedPair pair;
    pair.two.reset(socket(AF_UNIX, kind | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    const SocketName own(caller);
    if (!pair.two ||
        (caller.size() > sizeof(sa_family_t) && bind(pair.two.get(), own.get(), own.size) != 0))
        return Error::from_errno("connecting to " + address.text(), errno);
    const auto connects = [&](int, Namesake::Made &) {
        return sys::call(SYS_connect, pair.two.get(), address.get(), address.size);
    };
    std::optional<Namesake> other = as ? as(connects) : std::nullopt;
    bool connected = false;
    while (Clock::now() < end) {
        const auto act = [&] {
            Namesake::Made none;
            return other ? other->act() : static_cast<int>(-connects(0, none));
        };
        const int why = connected ? 0 : resources::connect_lent(address, act);
        connected = why == 0;
        if (other && !connected && why != EAGAIN) {
            other.reset(); // it may not do what we may
            continue;
        }
        if (!connected && why != EAGAIN && why != EINTR)
            return Error::from_errno("connecting to " + address.text(), why);
        const pid_t who = other ? other->pid() : getpid();
        if (std::optional<Fd> accepted = accept_from(who, listener)) {
            pair.one = std::move(*accepted);
            if (fcntl(pair.two.get(), F_SETFL, 0) != 0)
                return Error::from_errno("connecting to " + address.text(), errno);
            return pair;
        }
    }
    return Error(EBUSY, "connecting to " + address.text() + ": other programs fill its queue");
}

} // namespace cryo::restore
