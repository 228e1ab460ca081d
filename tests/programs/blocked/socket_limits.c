// SPDX-License-Identifier: Apache-2.0
// Calls on sockets with a time limit (SO_RCVTIMEO, SO_SNDTIMEO), by the functions of the C library:
// they continue with the remaining time, and the limits hold for later calls.
#include "limited_sockets.h"

#include <stdio.h>

static char byte;

static struct iovec one_byte(void)
{
    return (struct iovec){.iov_base = &byte, .iov_len = 1};
}

static long by_recv(long number, struct timespec time)
{
    (void)number;
    return recv(silent_socket(time), &byte, 1, 0);
}

static long by_recvmsg(long number, struct timespec time)
{
    (void)number;
    struct iovec part = one_byte();
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};
    return recvmsg(silent_socket(time), &message, 0);
}

static long by_recvmmsg(long number, struct timespec time)
{
    (void)number;
    struct iovec part = one_byte();
    struct mmsghdr message = {.msg_hdr = {.msg_iov = &part, .msg_iovlen = 1}};
    return recvmmsg(silent_socket(time), &message, 1, 0, NULL);
}

static long by_read(long number, struct timespec time)
{
    (void)number;
    return read(silent_socket(time), &byte, 1);
}

static long by_readv(long number, struct timespec time)
{
    (void)number;
    const struct iovec part = one_byte();
    return readv(silent_socket(time), &part, 1);
}

static long by_accept(long number, struct timespec time)
{
    (void)number;
    return accept(lonely_listener(time), NULL, NULL);
}

static long by_accept4(long number, struct timespec time)
{
    (void)number;
    return accept4(lonely_listener(time), NULL, NULL, SOCK_CLOEXEC);
}

static long by_send(long number, struct timespec time)
{
    (void)number;
    return send(full_socket(time), &byte, 1, 0);
}

static long by_sendmsg(long number, struct timespec time)
{
    (void)number;
    struct iovec part = one_byte();
    const struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};
    return sendmsg(full_socket(time), &message, 0);
}

static long by_sendmmsg(long number, struct timespec time)
{
    (void)number;
    struct iovec part = one_byte();
    struct mmsghdr message = {.msg_hdr = {.msg_iov = &part, .msg_iovlen = 1}};
    return sendmmsg(full_socket(time), &message, 1, 0);
}

static long by_write(long number, struct timespec time)
{
    (void)number;
    return write(full_socket(time), &byte, 1);
}

static long by_writev(long number, struct timespec time)
{
    (void)number;
    const struct iovec part = one_byte();
    return writev(full_socket(time), &part, 1);
}

static long by_connect(long number, struct timespec time)
{
    (void)number;
    struct sockaddr_un to;
    socklen_t size;
    const int fd = caller_in_vain(time, &to, &size);
    return connect(fd, (const struct sockaddr *)&to, size);
}

// The C library makes the read itself here.
static long by_fgetc(long number, struct timespec time)
{
    (void)number;
    FILE *stream = fdopen(silent_socket(time), "r");
    return fgetc(stream);
}

static const struct timed_wait waits[] = {
    {"recv", SYS_recvfrom, by_recv, -1, EAGAIN},
    {"recvmsg", SYS_recvmsg, by_recvmsg, -1, EAGAIN},
    {"recvmmsg", SYS_recvmmsg, by_recvmmsg, -1, EAGAIN},
    {"read", SYS_read, by_read, -1, EAGAIN},
    {"readv", SYS_readv, by_readv, -1, EAGAIN},
    {"accept", SYS_accept, by_accept, -1, EAGAIN},
    {"accept4", SYS_accept4, by_accept4, -1, EAGAIN},
    {"send", SYS_sendto, by_send, -1, EAGAIN},
    {"sendmsg", SYS_sendmsg, by_sendmsg, -1, EAGAIN},
    {"sendmmsg", SYS_sendmmsg, by_sendmmsg, -1, EAGAIN},
    {"write", SYS_write, by_write, -1, EAGAIN},
    {"writev", SYS_writev, by_writev, -1, EAGAIN},
    {"connect", SYS_connect, by_connect, -1, EAGAIN},
    {"fgetc", SYS_read, by_fgetc, EOF, EAGAIN},
};

enum { WAITS = sizeof waits / sizeof waits[0] };

// One more wait, which gets what it waits for.
static int answered[2];

static long receive_answer(void *unused)
{
    (void)unused;
    return recv(answered[0], &byte, 1, 0);
}

int main(int argc, char **argv)
{
    probe_start(argc, argv);
    const struct timespec day = {.tv_sec = DAY_MS / 1000}, moment = {.tv_nsec = 20000000};
    PROBE_TRY(socketpair(AF_UNIX, SOCK_STREAM, 0, answered));
    limit_socket(answered[0], SO_RCVTIMEO, day);
    const int later = silent_socket(moment);
    do {
        struct probe_sleeper waiting;
        probe_sleep_in(&waiting, SYS_recvfrom, receive_answer, NULL);
        begin_table(waits, WAITS);
        probe_ready();
        probe_still_asleep("recv of an answer", &waiting);
        PROBE_TRY(write(answered[1], "a", 1));
        probe_woken("recv of an answer", &waiting, 1, 0);
        PROBE_SABOTAGE("sleep", end_a_day_early());
        PROBE_SABOTAGE("moment", ask_for_a_longer_moment());
        check_table(waits, WAITS);
        PROBE_SABOTAGE("later", PROBE_TRY(shutdown(later, SHUT_RD)));
        probe_equal("a later recv", -1, recv(later, &byte, 1, 0));
        probe_equal("errno of a later recv", EAGAIN, errno);
    } while (probe_more());
    return probe_pass();
}
