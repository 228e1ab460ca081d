// SPDX-License-Identifier: Apache-2.0
// Connections that go on in other sockets than they were in.
#include "resources/socket/packet_hold.hpp"
#include "resources/socket/peer_end.hpp"
#include "resources/socket/repair_mode.hpp"
#include "resources/socket/socket_options.hpp"
#include "resources/socket/tcp_lingering.hpp"
#include "resources/socket/tcp_repair.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <vector>

namespace cryo::resources {

namespace {

constexpr size_t at_once = 32 << 10; // the kernel wants each piece in one buffer
constexpr uint32_t of_writing = 2;   // in SOCKET.shutdown

struct RepairOption { // struct tcp_repair_opt
    uint32_t code, value;
};

Result<void> fill(int fd, RepairQueue queue, std::string_view bytes)
{
    if (!set_tcp(fd, TCP_REPAIR_QUEUE, queue))
        return repair_failed("choosing a queue of a connection");
    while (!bytes.empty()) {
        const ssize_t n = send(fd, bytes.data(), std::min(bytes.size(), at_once), MSG_DONTWAIT);
        if (n <= 0)
            return repair_failed("filling a queue of a connection");
        bytes.remove_prefix(static_cast<size_t>(n));
    }
    return {};
}

Result<void> connect_again(int fd, const image::Socket &saved)
{
    const TcpAddress local(saved.local), peer(saved.peer);
    const auto why = [&](std::string_view what) {
        const int error = errno;
        return Error(error, fmt::format("{} {} to {}: {}", what, local.text(), peer.text(),
                                        strerror(error)));
    };
    if (bind(fd, local.get(), local.size()) != 0)
        return why(errno == EADDRNOTAVAIL ? "this machine has not the address of the connection"
                                          : "taking the address of the connection");
    if (connect(fd, peer.get(), peer.size()) == 0)
        return {};
    const bool used = errno == EADDRNOTAVAIL || errno == EADDRINUSE;
    errno = used ? EADDRINUSE : errno;
    return why(used ? "another socket here has the connection" : "making again the connection");
}

// Takes effect as soon as it is set, or does so where the start resets it: set when the connection
// goes on. Probes and time limits of a connection whose packets are held would end it.
bool comes_later(int level, int name)
{
    if (level == SOL_SOCKET)
        return name == SO_REUSEADDR || name == SO_REUSEPORT || name == SO_KEEPALIVE ||
               name == SO_RCVBUF || name == SO_SNDBUF || name == SO_BUF_LOCK;
    // The size of segments is that of KEPT_CONNECTION: what limited it was its business at the
    // start.
    return level == IPPROTO_TCP &&
           (name == TCP_USER_TIMEOUT || name == TCP_NOTSENT_LOWAT || name == TCP_MAXSEG);
}

// What a connection that is being opened tells as a limit is what the way to the peer allows.
bool is_no_limit(int level, int name)
{
    return level == IPPROTO_TCP && name == TCP_MAXSEG;
}

Result<void> set_options_but(bool (*left_out)(int, int), int fd, const image::Socket &saved)
{
    std::vector<uint64_t> chosen;
    for (size_t i = 0; i + 2 < saved.options.size(); i += 3) {
        const uint64_t level = saved.options[i], name = saved.options[i + 1];
        if (!left_out(static_cast<int>(level), static_cast<int>(name)))
            chosen.insert(chosen.end(), {level, name, saved.options[i + 2]});
    }
    image::Socket others = saved;
    others.options = image::List<uint64_t>::of(chosen);
    return set_socket_options(fd, others);
}

// The end that was sent has its number before the connection goes on: the peer may have it, and
// acknowledges it with all that it sends. Under repair the kernel takes it for sent, whatever its
// congestion window says. Sent or not is the same where no data waits before it, as it is sent
// again in either case.
bool has_sent_end(const image::Socket &saved, const image::KeptConnection &kept)
{
    return (saved.shutdown & of_writing) != 0 && kept.unsent == 0;
}

// The queue for sending is chosen.
Result<void> shut_down(int fd)
{
    return shutdown(fd, SHUT_WR) == 0 ? Result<void>()
                                      : repair_failed("shutting a connection down");
}

Result<void> send_all(int fd, std::string_view bytes)
{
    while (!bytes.empty()) {
        const ssize_t n = send(fd, bytes.data(), bytes.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
        if (n <= 0)
            return Error::from_errno("sending what a connection was to send", errno);
        bytes.remove_prefix(static_cast<size_t>(n));
    }
    return {};
}

// An end that waits behind bytes which were never sent: only without repair does the kernel take
// them for that. It tries to send them, and the packet filter holds them.
Result<void> send_and_shut_down(int fd, std::string_view unsent)
{
    if (!leave_repair(fd))
        return repair_failed("letting a connection have what it was to send");
    Result<void> done = send_all(fd, unsent);
    if (done && shutdown(fd, SHUT_WR) != 0)
        done = Error::from_errno("shutting a connection down", errno);
    if (!set_tcp(fd, TCP_REPAIR, 1)) // else its end would be the program's, which sends
        return repair_failed("making again a connection");
    return done;
}

// The ends of both directions come in the order in which they came, for the states differ: who has
// sent the first one waits for late packets afterwards (TIME_WAIT).
Result<void> make_ends(int fd, const image::Socket &saved, const image::KeptConnection &kept,
                       std::string_view unsent)
{
    constexpr uint32_t room_for_an_end = 1 << 15;
    const RepairWindow window = {kept.update_seq, kept.send_window, kept.greatest_window,
                                 kept.receive_window, kept.told_seq};
    const bool own_end = has_sent_end(saved, kept);
    if (kept.state == 0) {
        if (!set_window(fd, window))
            return repair_failed("giving a connection its window");
        return own_end ? shut_down(fd) : Result<void>();
    }
    // An end is taken within the window only. That of the connection counts from behind the end if
    // it was acknowledged, and may be used up. It follows, and with it goes what the packet says of
    // the peer's window.
    RepairWindow wide = window;
    wide.receive = room_for_an_end;
    wide.told_seq = kept.receive_seq;
    if (!set_window(fd, wide))
        return repair_failed("giving a connection its window");
    Result<void> done;
    if (kept.state == TCP_CLOSING)
        done = own_end ? shut_down(fd) : send_and_shut_down(fd, unsent);
    if (done)
        done = tell_end(fd, {TcpAddress(saved.local), TcpAddress(saved.peer)}, peers_end(kept),
                        mark_of(kept.held));
    if (done && kept.state == TCP_LAST_ACK && own_end)
        done = shut_down(fd);
    if (!done)
        return done;
    if (!set_window(fd, window))
        return repair_failed("giving a connection its window");
    const int wanted = kept.state == TCP_LAST_ACK && !own_end ? static_cast<int>(TCP_CLOSE_WAIT)
                                                              : static_cast<int>(kept.state);
    if (const int state = state_of(fd); state != wanted)
        return Error(EPROTO, fmt::format("its state is {}, and not {}", state, wanted));
    return {};
}

// Only who has a connection's address may take part in it: so what is being opened is under repair,
// as if it were open, until it is opened again.
Result<void> call_again(int fd, const image::Socket &saved, const image::KeptConnection &kept)
{
    const TcpAddress peer = TcpAddress::of_peer(fd);
    const sockaddr nobody = {AF_UNSPEC, {}};
    int past = 0; // the error of that which was not open
    if (connect(fd, &nobody, sizeof(nobody)) != 0 || !get_option(fd, SOL_SOCKET, SO_ERROR, past) ||
        !set_seq(fd, send_queue, kept.send_seq) || !leave_repair(fd))
        return repair_failed("opening again a connection");
    give_room(fd, kept.send_room, kept.receive_room);
    static_cast<void>(set_options_but(is_no_limit, fd, saved));
    const int flags = fcntl(fd, F_GETFL);
    fcntl(fd, F_SETFL, flags | O_NONBLOCK);
    const bool calls = connect(fd, peer.get(), peer.size()) == 0 || errno == EINPROGRESS;
    const int why = errno;
    fcntl(fd, F_SETFL, flags);
    return calls ? Result<void>() : Error::from_errno("opening again a connection", why);
}

} // namespace

std::string_view sent_at_start(const image::KeptConnection &kept, std::string_view sent)
{
    return kept.state == TCP_CLOSING ? std::string_view() : sent.substr(sent.size() - kept.unsent);
}

Result<Fd> put_tcp(const image::Socket &saved, const image::KeptConnection &kept,
                   std::string_view received, std::string_view sent)
{
    if (!TcpAddress(saved.local).is_of(saved.domain) || !TcpAddress(saved.peer).is_of(saved.domain))
        return Error(EINVAL, "a connection without addresses");
    constexpr uint32_t both_ways = 3;
    const bool has_end = (saved.shutdown & of_writing) != 0;
    if (!is_sound(kept) || sent.size() != kept.size || saved.shutdown > both_ways ||
        (kept.state != 0 && has_end != has_own_end(static_cast<int>(kept.state))))
        return Error(EINVAL, "a connection with numbers that none can have");
    Fd made(socket(static_cast<int>(saved.domain), SOCK_STREAM | SOCK_CLOEXEC, IPPROTO_TCP));
    const int fd = made.get();
    if (!made)
        return Error::from_errno("making a socket", errno);
    const int no = 0;
    if (saved.domain == AF_INET6) // its addresses may be IPv4 ones, and the system's default V6ONLY
        setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &no, sizeof(no));
    if (!set_tcp(fd, TCP_REPAIR, 1))
        return repair_failed("making again a connection");
    // All that can fail here, as where an interface is gone. It precedes the address and the route,
    // which depend on some of them.
    if (Result<void> done = set_options_but(comes_later, fd, saved); !done)
        return done.error();
    const auto unread = static_cast<uint32_t>(received.size());
    const auto unacknowledged = static_cast<uint32_t>(sent.size());
    if (!set_seq(fd, receive_queue, kept.receive_seq - unread) ||
        !set_seq(fd, send_queue, kept.send_seq - unacknowledged))
        return repair_failed("giving a connection its position");
    if (Result<void> connected = connect_again(fd, saved); !connected)
        return connected.error();
    if (kept.state == TCP_SYN_SENT)
        return made;

    std::array<RepairOption, 4> options = {};
    size_t count = 0;
    if ((kept.options & TCPI_OPT_SACK) != 0)
        options[count++] = {TCPOPT_SACK_PERMITTED, 0};
    // Also where none was agreed on: otherwise the socket has the scale that this system would
    // offer, and announces its window by so many bits too small.
    const bool scales = (kept.options & TCPI_OPT_WSCALE) != 0;
    options[count++] = {TCPOPT_WINDOW, scales ? kept.send_scale | kept.receive_scale << 16 : 0};
    if ((kept.options & TCPI_OPT_TIMESTAMPS) != 0)
        options[count++] = {TCPOPT_TIMESTAMP, 0};
    options[count++] = {TCPOPT_MAXSEG, kept.mss};
    if (setsockopt(fd, IPPROTO_TCP, TCP_REPAIR_OPTIONS, options.data(),
                   static_cast<socklen_t>(count * sizeof(options[0]))) != 0 ||
        setsockopt(fd, IPPROTO_TCP, TCP_TIMESTAMP, &kept.timestamp, sizeof(kept.timestamp)) != 0)
        return repair_failed("giving a connection what it has agreed on");
    // The kernel counts its own structures, too.
    constexpr uint64_t per_byte = 4, least = 256 << 10;
    give_room(fd, std::max<uint64_t>(kept.send_room, sent.size() * per_byte + least),
              std::max<uint64_t>(kept.receive_room, received.size() * per_byte + least));
    set_tcp(fd, TCP_NOTSENT_LOWAT, -1); // no limit, until all is in it
    Result<void> filled = fill(fd, receive_queue, received);
    if (filled)
        filled = fill(fd, send_queue, sent.substr(0, sent.size() - kept.unsent));
    if (!filled)
        return filled.error();
    if (Result<void> ended = make_ends(fd, saved, kept, sent.substr(sent.size() - kept.unsent));
        !ended)
        return ended.error();
    if (!set_tcp(fd, TCP_REPAIR_QUEUE, no_queue))
        return repair_failed("leaving the queues of a connection");
    return made;
}

Result<void> start_tcp(int fd, const image::Socket &saved, const image::KeptConnection &kept,
                       std::string_view unsent)
{
    if (kept.state == TCP_SYN_SENT)
        return call_again(fd, saved, kept);
    // With a window probe: the peer's answer tells where it is.
    if (!set_tcp(fd, TCP_REPAIR, 0))
        return repair_failed("letting a connection go on");
    if (kept.state == TCP_CLOSING) // pushes what waits; the option gets its value below
        set_tcp(fd, TCP_CORK, 0);
    while (!unsent.empty()) {
        const ssize_t n = send(fd, unsent.data(), unsent.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
        if (n <= 0 && (errno == EAGAIN || errno == ENOMEM || errno == ENOBUFS))
            return Error::from_errno("sending what a connection was to send", errno);
        if (n <= 0)
            break; // its peer has ended it meanwhile, which is the program's to see
        unsent.remove_prefix(static_cast<size_t>(n));
    }
    // Peers know now that it goes on, so nothing fails any more. All that can has been tried.
    give_room(fd, kept.send_room, kept.receive_room);
    static_cast<void>(set_socket_options(fd, saved));
    if (saved.shutdown != 0)
        shutdown(fd, static_cast<int>(saved.shutdown) - 1);
    return {};
}

} // namespace cryo::resources
