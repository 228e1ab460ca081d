// SPDX-License-Identifier: Apache-2.0
#include "resources/socket/tcp_repair.hpp"

#include "look/tcp_look.hpp"
#include "resources/socket/repair_mode.hpp"

#include <cerrno>
#include <linux/sockios.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

namespace cryo::resources {

namespace {

constexpr size_t largest_piece = 512 << 10; // GSO_MAX_SIZE

// The last `size` bytes: what is acknowledged of a piece stays in its front until all of it is.
Result<std::string> peek_sent(int fd, size_t size)
{
    if (size == 0)
        return std::string();
    std::string bytes(size + largest_piece, '\0');
    const ssize_t n = recv(fd, bytes.data(), bytes.size(), MSG_PEEK | MSG_DONTWAIT);
    if (n < 0)
        return repair_failed("reading what a connection has sent");
    const auto all = static_cast<size_t>(n);
    if (all < size)
        return Error(EAGAIN, "what a connection has sent is being acknowledged");
    return bytes.substr(all - size, size);
}

// After the position was read: nothing but these unread bytes is in it, and no end of the peer's.
bool is_still(int fd, int state, size_t unread)
{
    int size = 0;
    return ioctl(fd, FIONREAD, &size) == 0 && size >= 0 && static_cast<size_t>(size) == unread &&
           state_of(fd) == state;
}

Error has_changed()
{
    return {EAGAIN, "something has arrived while it was read: try again"};
}

void look_at_room(int fd, image::KeptConnection &kept)
{
    get_option(fd, SOL_SOCKET, SO_SNDBUF, kept.send_room);
    get_option(fd, SOL_SOCKET, SO_RCVBUF, kept.receive_room);
}

// One that is being opened: its peer has got its first packet, or not, and nothing else. So a
// restart sends that packet again, under the same number, for which its peer takes it for the same
// one.
Result<TakenTcp> take_calling(int fd)
{
    TakenTcp taken;
    image::KeptConnection &kept = taken.record;
    int fast = 0;
    if (get_option(fd, IPPROTO_TCP, TCP_FASTOPEN_CONNECT, fast) && fast != 0)
        return Error(ENOTSUP, "it is being opened with data (TCP_FASTOPEN_CONNECT)");
    look_at_room(fd, kept);
    const Repair repair(fd);
    if (!repair || !seq_of(fd, receive_queue, taken.position.received) ||
        !seq_of(fd, send_queue, taken.position.sent))
        return repair_failed("reading a connection's position");
    char byte = 0;
    if (recv(fd, &byte, sizeof(byte), MSG_PEEK | MSG_DONTWAIT) != 0)
        return Error(ENOTSUP, "it is being opened with data (MSG_FASTOPEN)");
    taken.position.state = TCP_SYN_SENT;
    if (state_of(fd) != TCP_SYN_SENT)
        return has_changed();
    kept.state = TCP_SYN_SENT;
    kept.send_seq = taken.position.sent - 1; // its first packet has a number, like a byte
    return taken;
}

} // namespace

Result<TakenTcp> take_tcp(int fd)
{
    TakenTcp taken;
    image::KeptConnection &kept = taken.record;
    tcp_info info = {};
    int unacknowledged = 0, unsent = 0;
    if (!get_option(fd, IPPROTO_TCP, TCP_INFO, info) || ioctl(fd, SIOCOUTQ, &unacknowledged) != 0 ||
        ioctl(fd, SIOCOUTQNSD, &unsent) != 0)
        return Error::from_errno("asking a connection for its state", errno);
    const int state = info.tcpi_state;
    if (state == TCP_SYN_SENT)
        return take_calling(fd);
    // An end has a number, like a byte. What is kept does not count it: a restart sends this one
    // again, and the peer acknowledges it, be it for the second time; the peer's is told anew.
    const bool own_end = has_own_end(state), peers_end = has_peers_end(state);
    if (state != TCP_ESTABLISHED && !own_end && !peers_end)
        return Error(ENOTSUP,
                     state == TCP_SYN_RECV ? "it is just being opened" : "it is just being closed");
    if (own_end && state != TCP_FIN_WAIT2) {
        unacknowledged--;
        unsent -= unsent > 0 ? 1 : 0;
    }
    const Result<uint32_t> shutdown = capture::tcp_shutdown(fd);
    if (!shutdown)
        return shutdown.error();
    taken.shutdown = *shutdown;
    if (static_cast<size_t>(unacknowledged) > most_queued)
        return Error(ENOTSUP, "it has sent more than can be saved");
    Result<std::string> received = capture::peek_tcp(fd, most_queued);
    if (!received)
        return received.error();
    look_at_room(fd, kept);
    const Repair repair(fd);
    if (!repair)
        return repair_failed("reading a connection");
    if (!seq_of(fd, receive_queue, taken.position.received) ||
        !seq_of(fd, send_queue, taken.position.sent))
        return repair_failed("reading a connection's position");
    // What had passed the packet filter before may have arrived since the look at what is unread.
    taken.position.state = state;
    if (!is_still(fd, state, received->size()))
        return has_changed();
    kept.receive_seq = taken.position.received - (peers_end ? 1 : 0);
    kept.send_seq = taken.position.sent - (own_end ? 1 : 0);
    Result<std::string> sent = peek_sent(fd, static_cast<size_t>(unacknowledged));
    if (!sent)
        return sent.error();
    RepairWindow window = {};
    if (!get_option(fd, IPPROTO_TCP, TCP_MAXSEG, kept.mss) ||
        !get_option(fd, IPPROTO_TCP, TCP_TIMESTAMP, kept.timestamp) || !window_of(fd, window))
        return repair_failed("reading what a connection has agreed on");
    kept.size = sent->size();
    kept.unsent = static_cast<uint64_t>(unsent);
    kept.options = info.tcpi_options & (TCPI_OPT_TIMESTAMPS | TCPI_OPT_SACK | TCPI_OPT_WSCALE);
    kept.send_scale = info.tcpi_snd_wscale;
    kept.receive_scale = info.tcpi_rcv_wscale;
    kept.update_seq = window.update_seq;
    kept.send_window = window.send;
    kept.greatest_window = window.greatest;
    kept.receive_window = window.receive;
    kept.told_seq = window.told_seq;
    kept.state = peers_end ? static_cast<uint32_t>(state) : 0;
    if (!is_sound(kept)) // a peer may have asked for segments that no restart can divide into
        return Error(ENOTSUP, "its segments or buffers have sizes that no restart gives");
    taken.received = std::move(*received);
    taken.sent = std::move(*sent);
    return taken;
}

Result<void> silence_tcp(int fd, const TcpPosition &taken)
{
    Repair repair(fd);
    uint32_t received = 0, sent = 0;
    if (!repair || !seq_of(fd, receive_queue, received) || !seq_of(fd, send_queue, sent) ||
        !set_tcp(fd, TCP_REPAIR_QUEUE, no_queue))
        return repair_failed("silencing a connection");
    if (received != taken.received || sent != taken.sent || state_of(fd) != taken.state)
        return Error(EAGAIN, "a connection has changed since it was saved: try again");
    repair.leave_on();
    return {};
}

} // namespace cryo::resources
