// SPDX-License-Identifier: Apache-2.0
#include "look/tcp_look.hpp"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <linux/sockios.h>
#include <map>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <thread>

namespace cryo::capture {

namespace {

using Clock = std::chrono::steady_clock;

// A normal form of an address: IPv4 in an IPv6 socket equals plain IPv4.
std::string plain(const std::string &address)
{
    sockaddr_storage storage = {};
    memcpy(&storage, address.data(), std::min(address.size(), sizeof(storage)));
    const auto piece = [](const auto &field) {
        return std::string(reinterpret_cast<const char *>(&field), sizeof(field));
    };
    if (storage.ss_family == AF_INET) {
        const auto &in = reinterpret_cast<const sockaddr_in &>(storage);
        return piece(in.sin_addr) + piece(in.sin_port);
    }
    const auto &in = reinterpret_cast<const sockaddr_in6 &>(storage);
    if (IN6_IS_ADDR_V4MAPPED(&in.sin6_addr))
        return piece(in.sin6_addr).substr(12) + piece(in.sin6_port);
    return piece(in.sin6_addr) + piece(in.sin6_scope_id) + piece(in.sin6_port);
}

uint16_t port_of(const std::string &address)
{
    sockaddr_in in = {}; // the port is at the same place in both families
    memcpy(&in, address.data(), std::min(address.size(), sizeof(in)));
    return ntohs(in.sin_port);
}

bool listens(std::span<const SocketLook *const> looks, const SocketLook &at)
{
    return std::ranges::any_of(looks, [&at](const SocketLook *look) {
        return look->listening && look->domain == at.domain &&
               port_of(look->local) == port_of(at.local);
    });
}

bool is_tcp(const SocketLook &look)
{
    return (look.domain == AF_INET || look.domain == AF_INET6) && look.kind == SOCK_STREAM &&
           look.protocol == IPPROTO_TCP;
}

int number(int fd, int level, int name)
{
    int value = -1;
    socklen_t size = sizeof(value);
    return getsockopt(fd, level, name, &value, &size) == 0 ? value : -1;
}

struct Peeked {
    ssize_t size = 0; // −1: see `error`
    int error = 0;
    int waiting = -1; // all unread bytes, peeked or not; −1: unknown
};

Peeked peek(int fd, std::string &bytes)
{
    const int before = number(fd, IPPROTO_TCP, TCP_INQ), yes = 1;
    setsockopt(fd, IPPROTO_TCP, TCP_INQ, &yes, sizeof(yes));
    alignas(cmsghdr) char control[256];
    iovec space = {bytes.data(), bytes.size()};
    msghdr message = {};
    message.msg_iov = &space;
    message.msg_iovlen = 1;
    message.msg_control = control;
    message.msg_controllen = sizeof(control);
    Peeked seen;
    seen.size = recvmsg(fd, &message, MSG_PEEK | MSG_DONTWAIT);
    seen.error = errno;
    if (before >= 0)
        setsockopt(fd, IPPROTO_TCP, TCP_INQ, &before, sizeof(before));
    if (seen.size < 0)
        return seen;
    for (cmsghdr *head = CMSG_FIRSTHDR(&message); head != nullptr;
         head = CMSG_NXTHDR(&message, head)) {
        if (head->cmsg_level == IPPROTO_TCP && head->cmsg_type == TCP_CM_INQ)
            memcpy(&seen.waiting, CMSG_DATA(head), sizeof(seen.waiting));
    }
    // The FIN counts as a byte.
    tcp_info info = {};
    socklen_t size = sizeof(info);
    if (seen.waiting > 0 && getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &size) == 0 &&
        (info.tcpi_state == TCP_CLOSE_WAIT || info.tcpi_state == TCP_LAST_ACK ||
         info.tcpi_state == TCP_CLOSING))
        seen.waiting--;
    return seen;
}

// Bytes not acknowledged by the other end, a FIN counting as one. −1: unknown.
int unacknowledged(int fd)
{
    int bytes = -1;
    return ioctl(fd, SIOCOUTQ, &bytes) == 0 ? bytes : -1;
}

} // namespace

std::vector<std::pair<size_t, size_t>> tcp_pairs(std::span<const SocketLook *const> looks)
{
    std::map<std::pair<std::string, std::string>, size_t> known; // local, peer
    std::vector<std::pair<size_t, size_t>> pairs;
    for (size_t i = 0; i < looks.size(); i++) {
        const SocketLook &look = *looks[i];
        if (!is_tcp(look) || look.listening || look.local_is_unnamed || look.peer_is_unnamed)
            continue;
        const std::string local = plain(look.local), peer = plain(look.peer);
        const auto other = known.find({peer, local});
        if (other == known.end()) {
            known.emplace(std::pair(local, peer), i);
            continue;
        }
        const SocketLook &two = *looks[other->second];
        // The end whose port has a listener accepted; otherwise usually that of the lower port.
        const bool one_listens = listens(looks, look), two_listens = listens(looks, two);
        if (one_listens != two_listens ? one_listens : port_of(look.local) < port_of(two.local))
            pairs.emplace_back(i, other->second);
        else
            pairs.emplace_back(other->second, i);
        known.erase(other);
    }
    return pairs;
}

Result<void> await_delivery(int one, int two)
{
    // If the other end has room, data arrives at once, or within 200 ms if a small segment waited
    // to be merged or an acknowledgement was delayed.
    constexpr auto patience = std::chrono::milliseconds(600);
    int before[2] = {0, 0};
    Clock::time_point since = Clock::now();
    for (;;) {
        const int now[2] = {unacknowledged(one), unacknowledged(two)};
        if (now[0] == 0 && now[1] == 0)
            return {};
        if (now[0] < 0 || now[1] < 0)
            return Error::from_errno("asking a connection what is on its way", errno);
        if (now[0] != before[0] || now[1] != before[1]) {
            since = Clock::now();
            std::ranges::copy(now, before);
        } else if (Clock::now() - since > patience) {
            return Error(ENOTSUP, "more is on its way than the other end has room for until "
                                  "something is read there");
        }
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
}

Result<std::string> peek_tcp(int fd, size_t most)
{
    char layer[16] = "";
    socklen_t layer_size = sizeof(layer);
    if (getsockopt(fd, IPPROTO_TCP, TCP_ULP, layer, &layer_size) == 0 && layer_size > 0 &&
        layer[0] != 0)
        return Error(ENOTSUP, "another protocol was put on it (TCP_ULP)");
    pollfd urgent = {fd, POLLPRI, 0};
    int at_mark = 0;
    if ((poll(&urgent, 1, 0) == 1 && (urgent.revents & POLLPRI) != 0) ||
        ioctl(fd, SIOCATMARK, &at_mark) != 0 || at_mark != 0)
        return Error(ENOTSUP, "urgent data waits in it (MSG_OOB)");
    // Notifications of zero-copy sends are numbered from the start of the connection.
    if ((urgent.revents & POLLERR) != 0)
        return Error(ENOTSUP, "an error or a notice waits in it (MSG_ERRQUEUE)");
    if (number(fd, SOL_SOCKET, SO_ZEROCOPY) > 0)
        return Error(ENOTSUP, "it sends without copying (SO_ZEROCOPY)");
    int size = 0;
    if (ioctl(fd, FIONREAD, &size) != 0 || size < 0)
        return Error::from_errno("asking a connection what waits in it", errno);
    if (static_cast<size_t>(size) > most)
        return Error(ENOTSUP, "more waits in it than can be saved");
    // Peeking starts at the socket's own peek offset, if it has one.
    int offset = -1;
    socklen_t offset_size = sizeof(offset);
    const bool has_offset =
        getsockopt(fd, SOL_SOCKET, SO_PEEK_OFF, &offset, &offset_size) == 0 && offset >= 0;
    const int start = 0;
    if (has_offset)
        setsockopt(fd, SOL_SOCKET, SO_PEEK_OFF, &start, sizeof(start));
    std::string bytes(static_cast<size_t>(size) + 1, '\0');
    const Peeked seen = peek(fd, bytes);
    if (has_offset)
        setsockopt(fd, SOL_SOCKET, SO_PEEK_OFF, &offset, sizeof(offset));
    if (seen.size < 0 && !(seen.error == EAGAIN && size == 0))
        return Error::from_errno("looking into a connection", seen.error);
    // Both stop before the position of an urgent byte, even if that was read already.
    if (std::max<ssize_t>(seen.size, 0) != size || (seen.waiting >= 0 && seen.waiting != size))
        return Error(ENOTSUP, "what waits in it cannot be seen as a whole, urgent data was among "
                              "it (MSG_OOB)");
    bytes.resize(static_cast<size_t>(size));
    return bytes;
}

Result<uint32_t> tcp_shutdown(int fd)
{
    tcp_info info = {};
    socklen_t size = sizeof(info);
    if (getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &size) != 0)
        return Error::from_errno("asking a connection for its state", errno);
    pollfd ends = {fd, POLLRDHUP, 0};
    const bool no_reading = poll(&ends, 1, 0) == 1 && (ends.revents & POLLRDHUP) != 0;
    switch (info.tcpi_state) {
    case TCP_ESTABLISHED: // no FIN has arrived
        return no_reading ? 1U : 0U;
    case TCP_FIN_WAIT1:
    case TCP_FIN_WAIT2:
        return no_reading ? 3U : 2U;
    case TCP_CLOSE_WAIT:
        return 0U;
    case TCP_LAST_ACK:
    case TCP_CLOSING:
        return 2U;
    default:
        return Error(ENOTSUP, "it is just being opened or closed");
    }
}

} // namespace cryo::capture
