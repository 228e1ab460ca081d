// SPDX-License-Identifier: Apache-2.0
// The connection to the checkpointer, with a limit on its silence. A stopped program waits for no
// peer without end: if the checkpointer is stopped, hangs, or is dead without its socket being
// closed, the program continues without it. Between checkpoints this costs nothing.
#include "agent/agent.hpp"
#include "sys/raw.hpp"

#include <cerrno>
#include <poll.h>
#include <sys/socket.h>
#include <sys/time.h>

namespace cryo::agent {

constinit Line line;

namespace {

// The kernel says EAGAIN when the time limit has passed; none of these descriptors is nonblocking.
long heard(long result)
{
    if (result != -EAGAIN)
        return result;
    line.is_silent = true;
    return -ETIME;
}

} // namespace

void limit_silence(int fd, uint32_t ms)
{
    const timeval limit = {ms / 1000, static_cast<long>(ms % 1000) * 1000};
    sys::call(SYS_setsockopt, fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
    sys::call(SYS_setsockopt, fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit));
}

void begin_line(int connection)
{
    line.is_silent = false;
    limit_line(connection, first_word_ms);
}

void limit_line(int connection, uint32_t ms)
{
    line.limit_ms = ms;
    if (connection >= 0)
        limit_silence(connection, ms);
}

long send_packet(int to, const void *data, size_t size)
{
    long n = -ETIME;
    while (!line.is_silent &&
           (n = sys::call(SYS_sendto, to, data, size, MSG_NOSIGNAL, nullptr, 0)) == -EINTR)
        ;
    return heard(n);
}

long send_message(int to, const void *message)
{
    long n = -ETIME;
    while (!line.is_silent && (n = sys::call(SYS_sendmsg, to, message, MSG_NOSIGNAL)) == -EINTR)
        ;
    return heard(n);
}

long receive_packet(int from, void *to, size_t size, int flags)
{
    long n = -ETIME;
    while (!line.is_silent &&
           (n = sys::call(SYS_recvfrom, from, to, size, flags, nullptr, nullptr)) == -EINTR)
        ;
    return heard(n);
}

long receive_message(int from, void *message, int flags)
{
    long n = -ETIME;
    while (!line.is_silent && (n = sys::call(SYS_recvmsg, from, message, flags)) == -EINTR)
        ;
    return heard(n);
}

long await_room(int pipe)
{
    pollfd room = {pipe, POLLOUT, 0};
    long ready = -ETIME;
    while (!line.is_silent &&
           (ready = sys::call(SYS_poll, &room, 1, static_cast<long>(line.limit_ms))) == -EINTR)
        ;
    return heard(ready == 0 ? -EAGAIN : ready);
}

void say_called_off(int connection)
{
    const Reply answer = {protocol_magic, protocol_version, Op::called_off,
                          -ETIME,         line.limit_ms,    0};
    sys::call(SYS_sendto, connection, &answer, sizeof(answer), MSG_NOSIGNAL | MSG_DONTWAIT, nullptr,
              0);
}

} // namespace cryo::agent
