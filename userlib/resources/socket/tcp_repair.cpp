// SPDX-License-Identifier: Apache-2.0
#include "resources/socket/tcp_repair.hpp"

#include "look/tcp_look.hpp"
#include "resources/socket/socket_options.hpp"
#include "resources/socket/tcp_lingering.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <fmt/format.h>
#include <linux/sockios.h>
#include <netinet/tcp.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <vector>

namespace cryo::resources {

namespace {

// Newer than libc's header.
constexpr int repair_off_silently = -1; // TCP_REPAIR_OFF_NO_WP: sends no window probe
constexpr int window_option = 29;       // TCP_REPAIR_WINDOW

enum Queue : int { no_queue = 0, receive_queue = 1, send_queue = 2 };

constexpr size_t most_sent = 64 << 20;      // more than tcp_wmem allows anywhere
constexpr size_t at_once = 32 << 10;        // the kernel wants each piece in one buffer
constexpr size_t largest_piece = 512 << 10; // GSO_MAX_SIZE
constexpr uint32_t least_segment = 88;      // TCP_MIN_MSS: a smaller one can divide by zero
constexpr uint32_t widest_scale = 14;       // TCP_MAX_WSCALE
constexpr uint32_t most_room = 1 << 30;     // of a buffer

struct Window { // struct tcp_repair_window
    uint32_t update_seq, send, greatest, receive, told_seq;
};

struct RepairOption { // struct tcp_repair_opt
    uint32_t code, value;
};

Error failed(std::string_view what)
{
    return Error::from_errno(fmt::format("{} (TCP_REPAIR)", what), errno);
}

bool set(int fd, int name, int value)
{
    return setsockopt(fd, IPPROTO_TCP, name, &value, sizeof(value)) == 0;
}

bool set_seq(int fd, Queue queue, uint32_t seq)
{
    return set(fd, TCP_REPAIR_QUEUE, queue) &&
           setsockopt(fd, IPPROTO_TCP, TCP_QUEUE_SEQ, &seq, sizeof(seq)) == 0;
}

bool seq_of(int fd, Queue queue, uint32_t &seq)
{
    socklen_t size = sizeof(seq);
    return set(fd, TCP_REPAIR_QUEUE, queue) &&
           getsockopt(fd, IPPROTO_TCP, TCP_QUEUE_SEQ, &seq, &size) == 0;
}

template <class T>
bool get(int fd, int level, int name, T &value)
{
    socklen_t size = sizeof(value);
    return getsockopt(fd, level, name, &value, &size) == 0 && size == sizeof(value);
}

// Under repair while it exists, unless it is left so.
class Repair
{
  public:
    explicit Repair(int fd) : fd_(fd), reuse_(reuse_of(fd)), on_(set(fd, TCP_REPAIR, 1)) {}
    ~Repair()
    {
        if (on_)
            end_repair(fd_, reuse_);
    }
    Repair(const Repair &) = delete;
    Repair &operator=(const Repair &) = delete;

    explicit operator bool() const { return on_; }
    void leave_on() { on_ = false; }

  private:
    int fd_, reuse_;
    bool on_;
};

// The last `size` bytes: what is acknowledged of a piece stays in its front until all of it is.
Result<std::string> peek_sent(int fd, size_t size)
{
    if (size == 0)
        return std::string();
    std::string bytes(size + largest_piece, '\0');
    const ssize_t n = recv(fd, bytes.data(), bytes.size(), MSG_PEEK | MSG_DONTWAIT);
    if (n < 0)
        return failed("reading what a connection has sent");
    const auto all = static_cast<size_t>(n);
    if (all < size)
        return Error(EAGAIN, "what a connection has sent is being acknowledged");
    return bytes.substr(all - size, size);
}

bool is_in_state(int fd, int state)
{
    tcp_info now = {};
    return get(fd, IPPROTO_TCP, TCP_INFO, now) && now.tcpi_state == state;
}

// After the position was read: nothing but these unread bytes is in it, and no end of the peer's.
bool is_still(int fd, int state, size_t unread)
{
    int size = 0;
    return ioctl(fd, FIONREAD, &size) == 0 && size >= 0 && static_cast<size_t>(size) == unread &&
           is_in_state(fd, state);
}

// The state in words, for those that no restart makes again yet.
const char *state_text(int state)
{
    switch (state) {
    case TCP_SYN_SENT:
    case TCP_SYN_RECV:
        return "it is just being opened";
    case TCP_CLOSE_WAIT:
        return "its peer has shut it down for writing (CLOSE_WAIT)";
    default:
        return "it is just being closed";
    }
}

bool is_sound(const image::KeptConnection &kept)
{
    return kept.mss >= least_segment && kept.mss <= UINT16_MAX && kept.send_scale <= widest_scale &&
           kept.receive_scale <= widest_scale && kept.unsent <= kept.size &&
           kept.size <= most_sent && kept.send_room <= most_room && kept.receive_room <= most_room;
}

// The kernel doubles what is set, as it reports the double.
void give_room(int fd, uint64_t send, uint64_t receive)
{
    const int to_send = static_cast<int>(std::min<uint64_t>(send, most_room) / 2);
    const int to_receive = static_cast<int>(std::min<uint64_t>(receive, most_room) / 2);
    setsockopt(fd, SOL_SOCKET, SO_SNDBUFFORCE, &to_send, sizeof(to_send));
    setsockopt(fd, SOL_SOCKET, SO_RCVBUFFORCE, &to_receive, sizeof(to_receive));
}

Result<void> fill(int fd, Queue queue, std::string_view bytes)
{
    if (!set(fd, TCP_REPAIR_QUEUE, queue))
        return failed("choosing a queue of a connection");
    while (!bytes.empty()) {
        const ssize_t n = send(fd, bytes.data(), std::min(bytes.size(), at_once), MSG_DONTWAIT);
        if (n <= 0)
            return failed("filling a queue of a connection");
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

// All that can fail here, as where an interface is gone. It precedes the address and the route,
// which depend on some of them.
Result<void> set_first_options(int fd, const image::Socket &saved)
{
    std::vector<uint64_t> chosen;
    for (size_t i = 0; i + 2 < saved.options.size(); i += 3) {
        const uint64_t level = saved.options[i], name = saved.options[i + 1];
        if (!comes_later(static_cast<int>(level), static_cast<int>(name)))
            chosen.insert(chosen.end(), {level, name, saved.options[i + 2]});
    }
    image::Socket first = saved;
    first.options = image::List<uint64_t>::of(chosen);
    return set_socket_options(fd, first);
}

// The end that was sent has its number before the connection goes on: the peer may have it, and
// acknowledges it with all that it sends. Under repair the kernel takes it for sent, whatever its
// congestion window says. Sent or not is the same where no data waits before it, as it is sent
// again in either case.
bool has_sent_end(const image::Socket &saved, const image::KeptConnection &kept)
{
    constexpr uint32_t of_writing = 2;
    return (saved.shutdown & of_writing) != 0 && kept.unsent == 0;
}

} // namespace

int reuse_of(int fd)
{
    int reuse = 0;
    return get(fd, SOL_SOCKET, SO_REUSEADDR, reuse) ? reuse : 0;
}

void end_repair(int fd, int reuse)
{
    set(fd, TCP_REPAIR_QUEUE, no_queue);
    if (!set(fd, TCP_REPAIR, repair_off_silently))
        set(fd, TCP_REPAIR, 0); // Linux before 4.19
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &reuse, sizeof(reuse));
}

Result<TakenTcp> take_tcp(int fd)
{
    TakenTcp taken;
    image::KeptConnection &kept = taken.record;
    tcp_info info = {};
    int unacknowledged = 0, unsent = 0;
    if (!get(fd, IPPROTO_TCP, TCP_INFO, info) || ioctl(fd, SIOCOUTQ, &unacknowledged) != 0 ||
        ioctl(fd, SIOCOUTQNSD, &unsent) != 0)
        return Error::from_errno("asking a connection for its state", errno);
    // An end that was sent has a number, like a byte. What is kept does not count it: a restart
    // sends it again, and the peer acknowledges it, be it for the second time.
    const bool has_end = info.tcpi_state == TCP_FIN_WAIT1 || info.tcpi_state == TCP_FIN_WAIT2;
    if (info.tcpi_state != TCP_ESTABLISHED && !has_end)
        return Error(ENOTSUP, state_text(info.tcpi_state));
    if (info.tcpi_state == TCP_FIN_WAIT1) {
        unacknowledged--;
        unsent -= unsent > 0 ? 1 : 0;
    }
    const Result<uint32_t> shutdown = capture::tcp_shutdown(fd);
    if (!shutdown)
        return shutdown.error();
    taken.shutdown = *shutdown;
    if (static_cast<size_t>(unacknowledged) > most_sent)
        return Error(ENOTSUP, "it has sent more than can be saved");
    Result<std::string> received = capture::peek_tcp(fd);
    if (!received)
        return received.error();
    get(fd, SOL_SOCKET, SO_SNDBUF, kept.send_room);
    get(fd, SOL_SOCKET, SO_RCVBUF, kept.receive_room);
    Repair repair(fd);
    if (!repair)
        return failed("reading a connection");
    if (!seq_of(fd, receive_queue, taken.position.received) ||
        !seq_of(fd, send_queue, taken.position.sent))
        return failed("reading a connection's position");
    // What had passed the packet filter before may have arrived since the look at what is unread.
    taken.position.state = info.tcpi_state;
    if (!is_still(fd, info.tcpi_state, received->size()))
        return Error(EAGAIN, "something has arrived while it was read: try again");
    kept.receive_seq = taken.position.received;
    kept.send_seq = taken.position.sent - (has_end ? 1 : 0);
    Result<std::string> sent = peek_sent(fd, static_cast<size_t>(unacknowledged));
    if (!sent)
        return sent.error();
    Window window = {};
    if (!get(fd, IPPROTO_TCP, TCP_MAXSEG, kept.mss) ||
        !get(fd, IPPROTO_TCP, TCP_TIMESTAMP, kept.timestamp) ||
        !get(fd, IPPROTO_TCP, window_option, window))
        return failed("reading what a connection has agreed on");
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
        !set(fd, TCP_REPAIR_QUEUE, no_queue))
        return failed("silencing a connection");
    if (received != taken.received || sent != taken.sent || !is_in_state(fd, taken.state))
        return Error(EAGAIN, "a connection has changed since it was saved: try again");
    repair.leave_on();
    return {};
}

Result<Fd> put_tcp(const image::Socket &saved, const image::KeptConnection &kept,
                   std::string_view received, std::string_view sent)
{
    if (!TcpAddress(saved.local).is_of(saved.domain) || !TcpAddress(saved.peer).is_of(saved.domain))
        return Error(EINVAL, "a connection without addresses");
    constexpr uint32_t both_ways = 3;
    if (!is_sound(kept) || sent.size() != kept.size || saved.shutdown > both_ways)
        return Error(EINVAL, "a connection with numbers that none can have");
    Fd made(socket(static_cast<int>(saved.domain), SOCK_STREAM | SOCK_CLOEXEC, IPPROTO_TCP));
    const int fd = made.get();
    if (!made)
        return Error::from_errno("making a socket", errno);
    const int no = 0;
    if (saved.domain == AF_INET6) // its addresses may be IPv4 ones, and the system's default V6ONLY
        setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &no, sizeof(no));
    if (!set(fd, TCP_REPAIR, 1))
        return failed("making again a connection");
    if (Result<void> done = set_first_options(fd, saved); !done)
        return done.error();
    const auto unread = static_cast<uint32_t>(received.size());
    const auto unacknowledged = static_cast<uint32_t>(sent.size());
    if (!set_seq(fd, receive_queue, kept.receive_seq - unread) ||
        !set_seq(fd, send_queue, kept.send_seq - unacknowledged))
        return failed("giving a connection its position");
    if (Result<void> connected = connect_again(fd, saved); !connected)
        return connected.error();

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
        return failed("giving a connection what it has agreed on");
    // The kernel counts its own structures, too.
    constexpr uint64_t per_byte = 4, least = 256 << 10;
    give_room(fd, std::max<uint64_t>(kept.send_room, sent.size() * per_byte + least),
              std::max<uint64_t>(kept.receive_room, received.size() * per_byte + least));
    set(fd, TCP_NOTSENT_LOWAT, -1); // no limit, until all is in it
    Result<void> filled = fill(fd, receive_queue, received);
    if (filled)
        filled = fill(fd, send_queue, sent.substr(0, sent.size() - kept.unsent));
    if (!filled)
        return filled.error();
    const Window window = {kept.update_seq, kept.send_window, kept.greatest_window,
                           kept.receive_window, kept.told_seq};
    if (setsockopt(fd, IPPROTO_TCP, window_option, &window, sizeof(window)) != 0)
        return failed("giving a connection its window");
    if (has_sent_end(saved, kept) && // the queue for sending is chosen
        shutdown(fd, SHUT_WR) != 0)
        return failed("shutting a connection down");
    if (!set(fd, TCP_REPAIR_QUEUE, no_queue))
        return failed("leaving the queues of a connection");
    return made;
}

Result<void> start_tcp(int fd, const image::Socket &saved, const image::KeptConnection &kept,
                       std::string_view unsent)
{
    // With a window probe: the peer's answer tells where it is.
    if (!set(fd, TCP_REPAIR, 0))
        return failed("letting a connection go on");
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
