// SPDX-License-Identifier: Apache-2.0
//
// What comes with a datagram: here one control message.
//
//     struct ucred who;
//     probe_equal("kind", SCM_CREDENTIALS, receive_with(fd, 4, &who, sizeof who));
#ifndef CRYO_TESTS_PROGRAMS_ANCILLARY_H
#define CRYO_TESTS_PROGRAMS_ANCILLARY_H

#include "probe.h"

#include <sys/socket.h>

// Receives a datagram of LENGTH bytes, at most 7, that waits there, and the SIZE bytes with it.
// Returns their kind.
static inline int receive_with(int from, long length, void *told, size_t size)
{
    char text[8] = "";
    union {
        struct cmsghdr header;
        char room[64];
    } control = {0};
    struct iovec part = {.iov_base = text, .iov_len = sizeof text - 1};
    struct msghdr message = {.msg_iov = &part,
                             .msg_iovlen = 1,
                             .msg_control = &control,
                             .msg_controllen = CMSG_SPACE(size)};
    probe_equal("bytes of the datagram", length, recvmsg(from, &message, MSG_DONTWAIT));
    memcpy(told, CMSG_DATA(&control.header), size);
    return control.header.cmsg_type;
}

#endif
