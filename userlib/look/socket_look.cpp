// SPDX-License-Identifier: Apache-2.0
#include "look/socket_look.hpp"

#include "base/fd.hpp"
#include "image/socket_options.hpp"
#include "look/diagnostics.hpp"
#include "look/other_look.hpp"
#include "look/udp_look.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <linux/sock_diag.h>
#include <linux/unix_diag.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

namespace cryo::capture {

namespace {

int option(int fd, int level, int name)
{
    int value = 0;
    socklen_t size = sizeof(value);
    return getsockopt(fd, level, name, &value, &size) == 0 ? value : -1;
}

std::string address(int fd, int (*ask)(int, sockaddr *, socklen_t *) noexcept, bool &there)
{
    sockaddr_storage storage = {};
    socklen_t size = sizeof(storage);
    there = ask(fd, reinterpret_cast<sockaddr *>(&storage), &size) == 0;
    return there ? std::string(reinterpret_cast<const char *>(&storage), size) : std::string();
}

// The kernel's diagnostics of one UNIX socket: calls `take` with type and data of each attribute.
// False: there are none, or not all can be read.
template <class F>
bool ask_diagnostics(uint64_t inode, uint32_t show, const F &take)
{
    unix_diag_req request = {};
    request.sdiag_family = AF_UNIX;
    request.udiag_states = ~0U;
    request.udiag_ino = static_cast<uint32_t>(inode);
    request.udiag_show = show;
    request.udiag_cookie[0] = request.udiag_cookie[1] = ~0U;
    const auto visit = [&take](const unix_diag_msg &, Attributes attributes) {
        return for_each_attribute(attributes.data(), attributes.size(), take);
    };
    const Result<bool> found = find_diagnosed<unix_diag_msg>(request, visit, Asking::one);
    return found && *found;
}

// Queries one UNIX socket, by its inode.
void diagnose(SocketLook &look, uint64_t inode)
{
    const auto take = [&look](unsigned type, Attributes data) {
        if (type == UNIX_DIAG_PEER) {
            look.peer_inode = attribute_value<uint32_t>(data);
        } else if (type == UNIX_DIAG_VFS) {
            const auto file = attribute_value<unix_diag_vfs>(data);
            look.file_inode = file.udiag_vfs_ino;
            look.file_device = file.udiag_vfs_dev;
        } else if (type == UNIX_DIAG_SHUTDOWN) {
            look.shutdown = attribute_value<uint8_t>(data);
        } else if (type == UNIX_DIAG_RQLEN && look.listening) {
            const auto queue = attribute_value<unix_diag_rqlen>(data);
            look.waiting = queue.udiag_rqueue;
            look.backlog = queue.udiag_wqueue;
        }
    };
    look.diagnosed =
        ask_diagnostics(inode, UDIAG_SHOW_VFS | UDIAG_SHOW_PEER | UDIAG_SHOW_RQLEN, take);
}

// Fields of the kernel's structure, since Linux 4.2, that libc's lacks.
struct TcpInfo : tcp_info {
    uint64_t pacing_rate, max_pacing_rate, bytes_acknowledged, bytes_received;
    uint32_t segments_out, segments_in;
};
static_assert(sizeof(tcp_info) == 104);

std::string congestion_of(int fd)
{
    char name[16] = ""; // TCP_CA_NAME_MAX
    socklen_t size = sizeof(name);
    const bool told = getsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, name, &size) == 0;
    return told ? std::string(name, strnlen(name, sizeof(name))) : std::string();
}

// As a socket has it that the program has not asked for another one.
std::string usual_congestion()
{
    const Fd fresh(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, IPPROTO_TCP));
    return congestion_of(fresh.get());
}

void look_at_tcp(int fd, SocketLook &look)
{
    TcpInfo info = {};
    socklen_t size = sizeof(info);
    if (getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &size) != 0)
        return;
    static const std::string usual = usual_congestion(); // asked once: programs have many sockets
    if (std::string name = congestion_of(fd); name != usual)
        look.congestion = std::move(name);
    // For a listening socket these two hold the queue of connections.
    if (look.listening) {
        look.waiting = info.tcpi_unacked;
        look.backlog = info.tcpi_sacked;
    } else {
        look.connected = info.tcpi_state != TCP_CLOSE;
        // A socket whose connection has ended still has a name, no longer in use, and is always
        // readable. A restored one never had a connection: it is recognised by its shutdown.
        pollfd end = {fd, POLLRDHUP, 0};
        look.ended = !look.connected && (info.segments_out > 0 ||
                                         (poll(&end, 1, 0) == 1 && (end.revents & POLLRDHUP) != 0));
        int waiting = 0;
        if (look.ended)
            look.unread = ioctl(fd, FIONREAD, &waiting) == 0 && waiting > 0;
    }
}

void look_at_udp(int fd, SocketLook &look, uint64_t inode)
{
    const Result<uint32_t> shutdown = udp_shutdown(fd, look.local, inode);
    if (shutdown)
        look.shutdown = *shutdown;
    if (shutdown || !look.problem.empty())
        return;
    look.problem = untold_shutdown(shutdown.error());
    look.passing = may_tell_later(shutdown.error());
}

bool is_internet(const SocketLook &look)
{
    return look.domain == AF_INET || look.domain == AF_INET6;
}

// Of a socket that sends packets: the kernel charges a packet to it from the first part on
// (MSG_MORE) until the device has sent the whole. Loopback does so at once.
bool holds_packet(int fd)
{
    uint32_t counts[SK_MEMINFO_VARS] = {};
    socklen_t size = sizeof(counts);
    return getsockopt(fd, SOL_SOCKET, SO_MEMINFO, counts, &size) == 0 &&
           counts[SK_MEMINFO_WMEM_ALLOC] != 0;
}

} // namespace

std::vector<uint64_t> waiting_callers(uint64_t listener)
{
    std::vector<uint64_t> callers;
    ask_diagnostics(listener, UDIAG_SHOW_ICONS, [&](unsigned type, Attributes data) {
        if (type != UNIX_DIAG_ICONS)
            return;
        for (; data.size() >= sizeof(uint32_t); data = data.subspan(sizeof(uint32_t)))
            callers.push_back(attribute_value<uint32_t>(data));
    });
    return callers;
}

Result<SocketLook> look_at_socket(int fd, uint64_t inode)
{
    SocketLook look;
    look.domain = option(fd, SOL_SOCKET, SO_DOMAIN);
    look.kind = option(fd, SOL_SOCKET, SO_TYPE);
    look.protocol = option(fd, SOL_SOCKET, SO_PROTOCOL);
    if (look.domain < 0 || look.kind < 0)
        return Error::from_errno("looking at a socket", errno);
    look.listening = option(fd, SOL_SOCKET, SO_ACCEPTCONN) == 1;
    bool there = false;
    look.local = address(fd, getsockname, there);
    look.local_is_unnamed = !there || is_unnamed(look.local);
    look.bound = !look.local_is_unnamed;
    look.peer = address(fd, getpeername, look.connected);
    look.peer_is_unnamed = is_unnamed(look.peer);
    pollfd ready = {fd, POLLIN, 0};
    const bool some = poll(&ready, 1, 0) == 1;
    look.unread = some && (ready.revents & POLLIN) != 0;
    look.failed = some && (ready.revents & POLLERR) != 0;
    look_at_filter(fd, look);
    if (look.domain == AF_UNIX)
        diagnose(look, inode);
    else if (is_other(look))
        look_at_other(fd, look, inode);
    else if (look.kind == SOCK_STREAM)
        look_at_tcp(fd, look);
    else if (is_udp(look))
        look_at_udp(fd, look, inode);
    if (look.problem.empty() && is_internet(look) && look.kind != SOCK_STREAM && holds_packet(fd)) {
        look.problem = "with a packet that the program has begun and not completed (MSG_MORE, "
                       "UDP_CORK), or that a device is still to send";
        look.passing = true;
    }
    look.options = image::read_socket_options(fd, look.domain, look.kind);
    return look;
}

bool is_udp(const SocketLook &look)
{
    return is_internet(look) && look.kind == SOCK_DGRAM && look.protocol == IPPROTO_UDP;
}

namespace {

constexpr size_t most = 8 << 20;
constexpr int scm_pidfd = 4; // SCM_PIDFD, since Linux 6.5
// Stored in SO_PEEK_OFF, where the kernel treats any negative number as unset: an empty packet was
// peeked here. The kernel does not show it again to peeks at an offset.
constexpr int empty_was_seen = -2;

// Peeks at the queue at chosen offsets; restores the socket's own peek offset at the end.
class Peeking
{
  public:
    explicit Peeking(int fd) : fd_(fd), before_(option(fd, SOL_SOCKET, SO_PEEK_OFF)) {}
    ~Peeking() { go_to(before_); }
    Peeking(const Peeking &) = delete;
    Peeking &operator=(const Peeking &) = delete;

    bool empty_seen() const { return before_ == empty_was_seen; }
    void note_empty(bool seen)
    {
        if (seen || empty_seen())
            before_ = seen ? empty_was_seen : -1;
    }
    void go_to(int offset) const
    {
        setsockopt(fd_, SOL_SOCKET, SO_PEEK_OFF, &offset, sizeof(offset));
    }
    struct Part {
        ssize_t size = 0; // −1: see `error`
        int error = 0;
        bool cut = false;   // not all descriptors could be received
        bool told = false;  // the sender's credentials came with it
        bool way = false;   // data on the packet's destination or hops came with it
        std::string sender; // the name of a packet's sender
        std::vector<Fd> descriptors;
    };
    Part look(char *to, size_t size, int flags) const;

  private:
    int fd_, before_;
};

Peeking::Part Peeking::look(char *to, size_t size, int flags) const
{
    alignas(cmsghdr) char control[4096]; // more than the kernel passes at once
    iovec space = {to, size};
    msghdr message = {};
    message.msg_iov = &space;
    message.msg_iovlen = 1;
    message.msg_control = control;
    message.msg_controllen = sizeof(control);
    sockaddr_storage name = {};
    message.msg_name = &name;
    message.msg_namelen = sizeof(name);
    Part part;
    part.size = recvmsg(fd_, &message, MSG_CMSG_CLOEXEC | MSG_PEEK | MSG_DONTWAIT | flags);
    if (part.size < 0) {
        part.error = errno;
        return part;
    }
    part.sender.assign(reinterpret_cast<const char *>(&name),
                       std::min<size_t>(message.msg_namelen, sizeof(name)));
    part.cut = (message.msg_flags & MSG_CTRUNC) != 0;
    for (cmsghdr *head = CMSG_FIRSTHDR(&message); head != nullptr;
         head = CMSG_NXTHDR(&message, head)) {
        const bool passed = head->cmsg_type == SCM_RIGHTS;
        part.way |= head->cmsg_level != SOL_SOCKET;
        part.told |= head->cmsg_level == SOL_SOCKET && head->cmsg_type == SCM_CREDENTIALS;
        if (head->cmsg_level != SOL_SOCKET || (!passed && head->cmsg_type != scm_pidfd))
            continue;
        const size_t count = (head->cmsg_len - CMSG_LEN(0)) / sizeof(int);
        for (size_t i = 0; i < count; i++) {
            int fd;
            memcpy(&fd, CMSG_DATA(head) + i * sizeof(int), sizeof(int));
            Fd copy(fd);
            if (passed)
                part.descriptors.push_back(std::move(copy));
        }
    }
    return part;
}

// Enables SO_PASSCRED during its lifetime: credentials distinguish an empty packet from the end
// behind the last packet.
class TellingSenders
{
  public:
    TellingSenders(int fd, bool wanted)
        : fd_(fd), before_(wanted ? option(fd, SOL_SOCKET, SO_PASSCRED) : 1)
    {
        if (before_ == 0)
            set(1);
    }
    ~TellingSenders()
    {
        if (before_ == 0)
            set(0);
    }
    TellingSenders(const TellingSenders &) = delete;
    TellingSenders &operator=(const TellingSenders &) = delete;

  private:
    void set(int value) const { setsockopt(fd_, SOL_SOCKET, SO_PASSCRED, &value, sizeof(value)); }
    int fd_, before_;
};

// The buffer for peeking, followed by a page that cannot be written.
class Room
{
  public:
    Room() : start_(mmap(nullptr, most + page, PROT_READ | PROT_WRITE, flags, -1, 0))
    {
        if (start_ != MAP_FAILED && mprotect(end(), page, PROT_NONE) != 0) {
            munmap(start_, most + page);
            start_ = MAP_FAILED;
        }
    }
    ~Room()
    {
        if (start_ != MAP_FAILED)
            munmap(start_, most + page);
    }
    Room(const Room &) = delete;
    Room &operator=(const Room &) = delete;

    explicit operator bool() const { return start_ != MAP_FAILED; }
    char *get() const { return static_cast<char *>(start_); }
    char *end() const { return get() + most; }

  private:
    static constexpr size_t page = image::kPageSize;
    static constexpr int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
    void *start_;
};

// Peeking at a stream, `size` bytes from `start` on, ends with a message that has descriptors and
// includes the data before it. A shorter peek does not show where that message begins, because the
// kernel returns the descriptors with any of its bytes. But if the last byte of a message cannot be
// written, only the messages before it are returned.
Result<size_t> begin_of_message(const Peeking &peeking, size_t start, size_t size, const Room &room)
{
    peeking.go_to(static_cast<int>(start));
    const Peeking::Part before = peeking.look(room.end() - (size - 1), size, 0);
    peeking.go_to(static_cast<int>(start + size));
    if (before.size < 0 && before.error == EFAULT)
        return start;
    if (before.size > 0 && static_cast<size_t>(before.size) < size && before.descriptors.empty())
        return start + static_cast<size_t>(before.size);
    return Error(ENOTSUP, "descriptors were sent to it and not received yet, and this kernel does "
                          "not show with which bytes");
}

// In a UNIX stream the error comes behind the bytes; where packets are kept apart it comes first,
// and a look takes it away. With the peer gone, it can only say that this had not read all.
bool shows_data_before_reset(const SocketLook &look)
{
    return look.domain == AF_UNIX && look.kind == SOCK_STREAM && look.connected && look.diagnosed &&
           look.peer_inode == 0;
}

} // namespace

Result<SocketQueue> peek_queue(int fd, const SocketLook &look)
{
    const bool stream = look.kind == SOCK_STREAM;
    pollfd waits = {fd, POLLERR | POLLPRI, 0};
    poll(&waits, 1, 0);
    SocketQueue queue;
    queue.reset = (waits.revents & POLLERR) != 0;
    if (queue.reset && !shows_data_before_reset(look))
        return Error(ENOTSUP,
                     "an error is pending in it, and Cryo would clear it by reading it (of a "
                     "connection ECONNRESET: the other end was closed with unread data)");
    int unread = 0;
    if (queue.reset && ioctl(fd, FIONREAD, &unread) != 0)
        return Error::from_errno("asking what waits in a socket", errno);
    // Peeking skips the urgent byte, or does not distinguish it from the others.
    if (stream && (waits.revents & POLLPRI) != 0)
        return Error(ENOTSUP, "urgent data waits in it (MSG_OOB)");
    const Room room;
    if (!room)
        return Error::from_errno("room to look into a socket", ENOMEM);
    Peeking peeking(fd);
    const bool may_end = look.domain == AF_UNIX && !stream && (look.shutdown & 1) != 0;
    const TellingSenders telling(fd, may_end);
    if (!stream && peeking.empty_seen()) {
        const Peeking::Part first = peeking.look(room.get(), most, MSG_TRUNC);
        if (first.size > 0 || (first.size == 0 && (!may_end || first.told)))
            return Error(ENOTSUP, "an empty packet may wait in it that an earlier checkpoint has "
                                  "looked at, and the kernel does not show it again");
        peeking.note_empty(false);
    }
    peeking.go_to(0);
    for (;;) {
        // A look behind the last byte would clear the reset.
        if (queue.reset && queue.bytes.size() >= static_cast<size_t>(unread))
            return queue;
        Peeking::Part part = peeking.look(room.get(), most, stream ? 0 : MSG_TRUNC);
        if (part.size < 0 && part.error == EAGAIN)
            return queue;
        if (part.size < 0)
            return Error::from_errno("looking into a socket", part.error);
        if (part.cut)
            return Error(ENOTSUP, "more descriptors wait in it than cr_checkpoint may open; raise "
                                  "its limit (ulimit -n)");
        const auto size = static_cast<size_t>(part.size);
        const size_t start = queue.bytes.size();
        if (size > most || start + size > most)
            return Error(ENOTSUP, "more waits in it than can be saved");
        // The end of the stream, or of the packets.
        if (size == 0 && (stream || (may_end && !part.told)) && part.descriptors.empty())
            return queue;
        queue.bytes.append(room.get(), size);
        queue.way_told |= part.way;
        if (size == 0)
            peeking.note_empty(true);
        if (!part.descriptors.empty()) {
            PassedDescriptors passed;
            passed.position = start;
            if (stream) {
                Result<size_t> begin = begin_of_message(peeking, start, size, room);
                if (!begin)
                    return begin.error();
                passed.position = *begin;
            }
            passed.size = start + size - passed.position;
            passed.packet = static_cast<uint32_t>(queue.packets.size());
            passed.descriptors = std::move(part.descriptors);
            queue.passed.push_back(std::move(passed));
        }
        if (!stream) {
            queue.packets.push_back(static_cast<uint32_t>(size));
            queue.senders.push_back(is_unnamed(part.sender) ? std::string() : part.sender);
        }
    }
}

} // namespace cryo::capture
