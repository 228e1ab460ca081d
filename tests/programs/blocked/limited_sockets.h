// SPDX-License-Identifier: Apache-2.0
//
// Sockets with a time limit (SO_RCVTIMEO, SO_SNDTIMEO), on which a call of each kind waits.
#ifndef CRYO_TESTS_PROGRAMS_BLOCKED_LIMITED_SOCKETS_H
#define CRYO_TESTS_PROGRAMS_BLOCKED_LIMITED_SOCKETS_H

#include "wait_table.h"

#include <sys/socket.h>
#include <sys/uio.h>
#include <sys/un.h>

static inline void limit_socket(int fd, int option, struct timespec time)
{
    const struct timeval limit = {.tv_sec = time.tv_sec, .tv_usec = time.tv_nsec / 1000};
    PROBE_TRY(setsockopt(fd, SOL_SOCKET, option, &limit, sizeof limit));
}

// A socket that receives nothing.
static inline int silent_socket(struct timespec time)
{
    int ends[2];
    PROBE_TRY(socketpair(AF_UNIX, SOCK_STREAM, 0, ends));
    limit_socket(ends[0], SO_RCVTIMEO, time);
    return ends[0];
}

// A socket whose send buffer is full.
static inline int full_socket(struct timespec time)
{
    static const char some[4096];
    int ends[2];
    PROBE_TRY(socketpair(AF_UNIX, SOCK_STREAM, 0, ends));
    while (send(ends[0], some, sizeof some, MSG_DONTWAIT) > 0)
        ;
    limit_socket(ends[0], SO_SNDTIMEO, time);
    return ends[0];
}

// A listener that no client connects to.
static inline int lonely_listener(struct timespec time)
{
    const struct sockaddr_un any = {.sun_family = AF_UNIX};
    const int fd = PROBE_TRY(socket(AF_UNIX, SOCK_STREAM, 0));
    PROBE_TRY(bind(fd, (const struct sockaddr *)&any, sizeof any.sun_family));
    PROBE_TRY(listen(fd, 1));
    limit_socket(fd, SO_RCVTIMEO, time);
    return fd;
}

// A socket whose connect blocks, because another connection fills the queue of the listener TO.
static inline int caller_in_vain(struct timespec time, struct sockaddr_un *to, socklen_t *size)
{
    const struct sockaddr_un any = {.sun_family = AF_UNIX};
    const int listener = PROBE_TRY(socket(AF_UNIX, SOCK_STREAM, 0));
    PROBE_TRY(bind(listener, (const struct sockaddr *)&any, sizeof any.sun_family));
    PROBE_TRY(listen(listener, 0));
    *size = sizeof *to;
    PROBE_TRY(getsockname(listener, (struct sockaddr *)to, size));
    const int first = PROBE_TRY(socket(AF_UNIX, SOCK_STREAM, 0));
    PROBE_TRY(connect(first, (struct sockaddr *)to, *size));
    const int fd = PROBE_TRY(socket(AF_UNIX, SOCK_STREAM, 0));
    limit_socket(fd, SO_SNDTIMEO, time);
    return fd;
}

#endif
