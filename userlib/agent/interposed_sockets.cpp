// SPDX-License-Identifier: Apache-2.0
// Interposes functions of the C library for sockets with a time limit (socket_wait.hpp). A program
// that never sets one pays one look at a word before the C library's function. Calls that the C
// library makes itself (stdio), and limits that another program has set, are not seen here: such a
// call is repeated with its whole time (interrupted_call.cpp).
//
// Calls that sleep until all of their data is moved go on with the rest after a checkpoint
// (cut_call.hpp), on pipes and terminals, too. They pay one look at another word.
#include "agent/socket_wait.hpp"

#include "agent/cut_call.hpp"
#include "agent/interposed.hpp"

#include <poll.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

namespace cryo::agent {

namespace {

struct {
    ssize_t (*read)(int, void *, size_t);
    ssize_t (*read_chk)(int, void *, size_t, size_t);
    ssize_t (*readv)(int, const iovec *, int);
    ssize_t (*recv)(int, void *, size_t, int);
    ssize_t (*recv_chk)(int, void *, size_t, size_t, int);
    ssize_t (*recvfrom)(int, void *, size_t, int, sockaddr *, socklen_t *);
    ssize_t (*recvfrom_chk)(int, void *, size_t, size_t, int, sockaddr *, socklen_t *);
    ssize_t (*recvmsg)(int, msghdr *, int);
    int (*recvmmsg)(int, mmsghdr *, unsigned, int, timespec *);
    int (*accept)(int, sockaddr *, socklen_t *);
    int (*accept4)(int, sockaddr *, socklen_t *, int);
    ssize_t (*write)(int, const void *, size_t);
    ssize_t (*writev)(int, const iovec *, int);
    ssize_t (*send)(int, const void *, size_t, int);
    ssize_t (*sendto)(int, const void *, size_t, int, const sockaddr *, socklen_t);
    ssize_t (*sendmsg)(int, const msghdr *, int);
    int (*sendmmsg)(int, mmsghdr *, unsigned, int);
    int (*connect)(int, const sockaddr *, socklen_t);
    int (*setsockopt)(int, int, int, const void *, socklen_t) noexcept;
} real;

template <class F>
F known(F &function)
{
    return known_by(function, find_real_socket_functions);
}

template <class F, class... Args>
[[gnu::noinline, gnu::cold]] auto under_limit(const SocketUse &use, F &function, int fd,
                                              Args... args)
{
    known(function);
    if (!any_socket_limits.load(std::memory_order_relaxed))
        return function(fd, args...);
    return socket_call(fd, use, ppoll, [&] { return function(fd, args...); });
}

template <class F, class... Args>
inline auto limited(const SocketUse &use, F &function, int fd, Args... args)
{
    if (__builtin_expect(function != nullptr, 1) &&
        __builtin_expect(!any_socket_limits.load(std::memory_order_relaxed), 1))
        return function(fd, args...);
    return under_limit(use, function, fd, args...);
}

const void *past(const void *data, size_t done)
{
    return static_cast<const char *>(data) + done;
}

ssize_t write_whole(int fd, const void *from, size_t size)
{
    return whole(fd, from, size, [=](size_t done) {
        return limited(sends, real.write, fd, past(from, done), size - done);
    });
}

ssize_t send_whole(int fd, const void *from, size_t size, int flags)
{
    if (!sends_whole(flags))
        return limited(sends, real.send, fd, from, size, flags);
    return whole(fd, from, size, [=](size_t done) {
        return limited(sends, real.send, fd, past(from, done), size - done,
                       flags_after(done, flags));
    });
}

// For recv() and its relatives with MSG_WAITALL. The first call is the program's own; a sender's
// address is the first byte's.
template <class Call>
ssize_t receive_whole(int fd, void *to, size_t size, int flags, Call first)
{
    if (!receives_whole(flags))
        return first();
    return whole(fd, to, size, [=](size_t done) {
        if (done == 0)
            return first();
        return is_stream(fd) ? limited(receives, real.recv, fd,
                                       static_cast<void *>(static_cast<char *>(to) + done),
                                       size - done, flags)
                             : ssize_t(0);
    });
}

} // namespace

void find_real_socket_functions()
{
    find(real.read, "read");
    find(real.read_chk, "__read_chk");
    find(real.readv, "readv");
    find(real.recv, "recv");
    find(real.recv_chk, "__recv_chk");
    find(real.recvfrom, "recvfrom");
    find(real.recvfrom_chk, "__recvfrom_chk");
    find(real.recvmsg, "recvmsg");
    find(real.recvmmsg, "recvmmsg");
    find(real.accept, "accept");
    find(real.accept4, "accept4");
    find(real.write, "write");
    find(real.writev, "writev");
    find(real.send, "send");
    find(real.sendto, "sendto");
    find(real.sendmsg, "sendmsg");
    find(real.sendmmsg, "sendmmsg");
    find(real.connect, "connect");
    find(real.setsockopt, "setsockopt");
}

} // namespace cryo::agent

using namespace cryo::agent;

extern "C" {

CRYO_INTERPOSED int setsockopt(int fd, int level, int option, const void *value,
                               socklen_t size) noexcept
{
    if (sets_socket_limit(level, option))
        any_socket_limits.store(true);
    return known(real.setsockopt)(fd, level, option, value, size);
}

CRYO_INTERPOSED ssize_t read(int fd, void *to, size_t size)
{
    return limited(receives, real.read, fd, to, size);
}

CRYO_INTERPOSED ssize_t __read_chk(int fd, void *to, size_t size, size_t room)
{
    return limited(receives, real.read_chk, fd, to, size, room);
}

CRYO_INTERPOSED ssize_t readv(int fd, const iovec *parts, int count)
{
    return limited(receives, real.readv, fd, parts, count);
}

CRYO_INTERPOSED ssize_t recv(int fd, void *to, size_t size, int flags)
{
    return receive_whole(fd, to, size, flags,
                         [=] { return limited(receives, real.recv, fd, to, size, flags); });
}

CRYO_INTERPOSED ssize_t __recv_chk(int fd, void *to, size_t size, size_t room, int flags)
{
    return receive_whole(fd, to, size, flags, [=] {
        return limited(receives, real.recv_chk, fd, to, size, room, flags);
    });
}

CRYO_INTERPOSED ssize_t recvfrom(int fd, void *to, size_t size, int flags, sockaddr *from,
                                 socklen_t *from_size)
{
    return receive_whole(fd, to, size, flags, [=] {
        return limited(receives, real.recvfrom, fd, to, size, flags, from, from_size);
    });
}

CRYO_INTERPOSED ssize_t __recvfrom_chk(int fd, void *to, size_t size, size_t room, int flags,
                                       sockaddr *from, socklen_t *from_size)
{
    return receive_whole(fd, to, size, flags, [=] {
        return limited(receives, real.recvfrom_chk, fd, to, size, room, flags, from, from_size);
    });
}

CRYO_INTERPOSED ssize_t recvmsg(int fd, msghdr *message, int flags)
{
    return limited(receives, real.recvmsg, fd, message, flags);
}

CRYO_INTERPOSED int recvmmsg(int fd, mmsghdr *messages, unsigned count, int flags, timespec *limit)
{
    return limited(receives, real.recvmmsg, fd, messages, count, flags, limit);
}

CRYO_INTERPOSED int accept(int fd, sockaddr *from, socklen_t *from_size)
{
    return limited(receives, real.accept, fd, from, from_size);
}

CRYO_INTERPOSED int accept4(int fd, sockaddr *from, socklen_t *from_size, int flags)
{
    return limited(receives, real.accept4, fd, from, from_size, flags);
}

CRYO_INTERPOSED ssize_t write(int fd, const void *from, size_t size)
{
    return write_whole(fd, from, size);
}

CRYO_INTERPOSED ssize_t writev(int fd, const iovec *parts, int count)
{
    return whole_parts(
        fd, parts, [=] { return limited(sends, real.writev, fd, parts, count); },
        [=](ssize_t done) {
            return rest_of_parts(
                parts, static_cast<size_t>(count), done,
                [=](const void *from, size_t size) { return write_whole(fd, from, size); });
        });
}

CRYO_INTERPOSED ssize_t send(int fd, const void *from, size_t size, int flags)
{
    return send_whole(fd, from, size, flags);
}

CRYO_INTERPOSED ssize_t sendto(int fd, const void *from, size_t size, int flags, const sockaddr *to,
                               socklen_t to_size)
{
    if (!sends_whole(flags))
        return limited(sends, real.sendto, fd, from, size, flags, to, to_size);
    return whole(fd, from, size, [=](size_t done) {
        return limited(sends, real.sendto, fd, past(from, done), size - done,
                       flags_after(done, flags), to, to_size);
    });
}

CRYO_INTERPOSED ssize_t sendmsg(int fd, const msghdr *message, int flags)
{
    const auto first = [=] { return limited(sends, real.sendmsg, fd, message, flags); };
    if (!sends_whole(flags))
        return first();
    // The rest of the message (descriptors) was delivered with its first byte.
    return whole_parts(fd, message, first, [=](ssize_t done) {
        return rest_of_parts(message->msg_iov, message->msg_iovlen, done,
                             [=](const void *from, size_t size) {
                                 return send_whole(fd, from, size, flags | MSG_NOSIGNAL);
                             });
    });
}

CRYO_INTERPOSED int sendmmsg(int fd, mmsghdr *messages, unsigned count, int flags)
{
    return limited(sends, real.sendmmsg, fd, messages, count, flags);
}

CRYO_INTERPOSED int connect(int fd, const sockaddr *to, socklen_t to_size)
{
    return limited(connects, real.connect, fd, to, to_size);
}

} // extern "C"
