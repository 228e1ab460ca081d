// SPDX-License-Identifier: Apache-2.0
// Calls on sockets with a time limit, by syscall(2): they continue with the remaining time.
#include "limited_sockets.h"

static char byte;

static long make_call(long number, struct timespec time)
{
    struct iovec part = {.iov_base = &byte, .iov_len = 1};
    struct mmsghdr message = {.msg_hdr = {.msg_iov = &part, .msg_iovlen = 1}};
    struct sockaddr_un to;
    socklen_t size;
    switch (number) {
    case SYS_recvfrom:
        return syscall(number, silent_socket(time), &byte, 1, 0, NULL, NULL);
    case SYS_recvmsg:
        return syscall(number, silent_socket(time), &message.msg_hdr, 0);
    case SYS_recvmmsg:
        return syscall(number, silent_socket(time), &message, 1, 0, NULL);
    case SYS_read:
        return syscall(number, silent_socket(time), &byte, 1);
    case SYS_readv:
        return syscall(number, silent_socket(time), &part, 1);
    case SYS_accept:
        return syscall(number, lonely_listener(time), NULL, NULL);
    case SYS_accept4:
        return syscall(number, lonely_listener(time), NULL, NULL, 0);
    case SYS_sendto:
        return syscall(number, full_socket(time), &byte, 1, 0, NULL, 0);
    case SYS_sendmsg:
        return syscall(number, full_socket(time), &message.msg_hdr, 0);
    case SYS_sendmmsg:
        return syscall(number, full_socket(time), &message, 1, 0);
    case SYS_write:
        return syscall(number, full_socket(time), &byte, 1);
    case SYS_writev:
        return syscall(number, full_socket(time), &part, 1);
    default: {
        const int fd = caller_in_vain(time, &to, &size);
        return syscall(number, fd, &to, size);
    }
    }
}

static const struct timed_wait waits[] = {
    {"recvfrom", SYS_recvfrom, make_call, -1, EAGAIN},
    {"recvmsg", SYS_recvmsg, make_call, -1, EAGAIN},
    {"recvmmsg", SYS_recvmmsg, make_call, -1, EAGAIN},
    {"read", SYS_read, make_call, -1, EAGAIN},
    {"readv", SYS_readv, make_call, -1, EAGAIN},
    {"accept", SYS_accept, make_call, -1, EAGAIN},
    {"accept4", SYS_accept4, make_call, -1, EAGAIN},
    {"sendto", SYS_sendto, make_call, -1, EAGAIN},
    {"sendmsg", SYS_sendmsg, make_call, -1, EAGAIN},
    {"sendmmsg", SYS_sendmmsg, make_call, -1, EAGAIN},
    {"write", SYS_write, make_call, -1, EAGAIN},
    {"writev", SYS_writev, make_call, -1, EAGAIN},
    {"connect", SYS_connect, make_call, -1, EAGAIN},
};

enum { WAITS = sizeof waits / sizeof waits[0] };

int main(int argc, char **argv)
{
    probe_start(argc, argv);
    do {
        begin_table(waits, WAITS);
        probe_ready();
        PROBE_SABOTAGE("sleep", end_a_day_early());
        PROBE_SABOTAGE("moment", ask_for_a_longer_moment());
        check_table(waits, WAITS);
    } while (probe_more());
    return probe_pass();
}
