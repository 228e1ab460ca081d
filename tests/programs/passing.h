// SPDX-License-Identifier: Apache-2.0
//
// Messages with descriptors (SCM_RIGHTS), for the programs that test them.
//
//     send_files(pair[0], "bytes", 5, 2, files);
//     int got[most_files];
//     probe_equal("descriptors", 2, receive_files(pair[1], text, sizeof text, got));
#ifndef CRYO_TESTS_PROGRAMS_PASSING_H
#define CRYO_TESTS_PROGRAMS_PASSING_H

#include "probe.h"

#include <sys/socket.h>

enum { most_files = 8 };

union file_control {
    struct cmsghdr header;
    char room[CMSG_SPACE(most_files * sizeof(int))];
};

static inline void send_files(int to, const char *bytes, size_t size, int count, const int *files)
{
    union file_control control = {0};
    struct iovec part = {.iov_base = (char *)bytes, .iov_len = size};
    struct msghdr message = {.msg_iov = &part,
                             .msg_iovlen = 1,
                             .msg_control = &control,
                             .msg_controllen = CMSG_SPACE((size_t)count * sizeof(int))};
    control.header = (struct cmsghdr){.cmsg_len = CMSG_LEN((size_t)count * sizeof(int)),
                                      .cmsg_level = SOL_SOCKET,
                                      .cmsg_type = SCM_RIGHTS};
    memcpy(CMSG_DATA(&control.header), files, (size_t)count * sizeof(int));
    probe_equal("bytes sent beside descriptors", (long long)size,
                PROBE_TRY(sendmsg(to, &message, 0)));
}

// Receives TEXT, at most SIZE bytes of it, ends it with a zero, and returns how many descriptors
// came with it.
static inline int receive_files(int from, char *text, size_t size, int *files)
{
    union file_control control = {0};
    struct iovec part = {.iov_base = text, .iov_len = size};
    struct msghdr message = {.msg_iov = &part,
                             .msg_iovlen = 1,
                             .msg_control = &control,
                             .msg_controllen = sizeof control};
    const long got = PROBE_TRY(recvmsg(from, &message, MSG_DONTWAIT));
    text[got] = 0;
    if (message.msg_controllen == 0) {
        return 0;
    }
    probe_equal("kind of the control message", SCM_RIGHTS, control.header.cmsg_type);
    const size_t count = (control.header.cmsg_len - CMSG_LEN(0)) / sizeof(int);
    memcpy(files, CMSG_DATA(&control.header), count * sizeof(int));
    return (int)count;
}

// A new file with TEXT, at the position AT.
static inline int new_file(const char *name, const char *text, off_t at)
{
    const int fd = (int)PROBE_TRY(open(probe_path(name), O_CREAT | O_RDWR | O_TRUNC, 0600));
    PROBE_TRY(write(fd, text, strlen(text)));
    PROBE_TRY(lseek(fd, at, SEEK_SET));
    return fd;
}

static inline void expect_text(const char *what, const char *text, int fd)
{
    char got[64] = "";
    PROBE_TRY(read(fd, got, sizeof got - 1));
    probe_equal_text(what, text, got);
}

static inline void close_files(int count, const int *files)
{
    for (int i = 0; i < count; i++) {
        PROBE_TRY(close(files[i]));
    }
}

#endif
