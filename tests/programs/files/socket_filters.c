// SPDX-License-Identifier: Apache-2.0
// Filters of sockets (SO_ATTACH_FILTER): instructions, the lock, and what has waited in a socket
// since before it had one that would drop it.
#include "probe.h"

#include <linux/filter.h>
#include <netinet/in.h>
#include <sys/socket.h>

// Drops what has this byte at this place.
#define FILTER(place, byte)                                                                        \
    {                                                                                              \
        BPF_STMT(BPF_LD | BPF_B | BPF_ABS, place),                                                 \
            BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, byte, 0, 1), BPF_STMT(BPF_RET | BPF_K, 0),         \
            BPF_STMT(BPF_RET | BPF_K, 0xffff)                                                      \
    }

static struct sock_filter without_d[] = FILTER(0, 'd');
static struct sock_filter without_n[] = FILTER(8, 'n'); // behind the head of a UDP datagram

static void attach(int fd, struct sock_filter *instructions)
{
    const struct sock_fprog program = {4, instructions};
    PROBE_TRY(setsockopt(fd, SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof program));
}

static void lock(int fd)
{
    PROBE_TRY(setsockopt(fd, SOL_SOCKET, SO_LOCK_FILTER, &(int){1}, sizeof(int)));
}

static int is_locked(int fd)
{
    int value = -1;
    socklen_t size = sizeof value;
    PROBE_TRY(getsockopt(fd, SOL_SOCKET, SO_LOCK_FILTER, &value, &size));
    return value;
}

static void has(const char *what, int fd, const struct sock_filter *instructions)
{
    struct sock_filter found[8] = {{0}};
    socklen_t count = 8;
    PROBE_TRY(getsockopt(fd, SOL_SOCKET, SO_GET_FILTER, found, &count));
    probe_equal(what, 4, count);
    probe_equal_bytes(what, instructions, found, 4 * sizeof *found);
}

static const char *next(int fd)
{
    static char text[16];
    const ssize_t n = recv(fd, text, sizeof text - 1, MSG_DONTWAIT);
    text[n < 0 ? 0 : n] = 0;
    return text;
}

int main(int argc, char **argv)
{
    probe_start(argc, argv);
    int ends[2];
    PROBE_TRY(socketpair(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0, ends));
    const int udp = PROBE_TRY(socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
    struct sockaddr_in name = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof name;
    PROBE_TRY(bind(udp, (struct sockaddr *)&name, size));
    PROBE_TRY(getsockname(udp, (struct sockaddr *)&name, &size));
    attach(udp, without_n);
    lock(udp);
    const int listener = PROBE_TRY(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    PROBE_TRY(listen(listener, 1));
    attach(listener, without_n);
    const int fresh = PROBE_TRY(socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
    lock(fresh);
    do {
        // A filter that is not locked can be taken away.
        setsockopt(ends[0], SOL_SOCKET, SO_DETACH_FILTER, &(int){0}, sizeof(int));
        PROBE_TRY(send(ends[1], "dear", 4, 0));
        attach(ends[0], without_d);
        PROBE_TRY(sendto(udp, "yes", 3, 0, (struct sockaddr *)&name, sizeof name));
        probe_ready();
        PROBE_SABOTAGE("pair", setsockopt(ends[0], SOL_SOCKET, SO_DETACH_FILTER, &(int){0}, 4));
        PROBE_SABOTAGE("waiting", next(ends[0]));
        PROBE_SABOTAGE("listener", attach(listener, without_d));
        PROBE_SABOTAGE("lock", dup2(PROBE_TRY(socket(AF_INET, SOCK_DGRAM, 0)), fresh));
        has("filter of the pair", ends[0], without_d);
        probe_equal_text("what was waiting in the pair", "dear", next(ends[0]));
        PROBE_TRY(send(ends[1], "drop", 4, 0));
        PROBE_TRY(send(ends[1], "keep", 4, 0));
        probe_equal_text("what comes next", "keep", next(ends[0]));
        has("filter of the bound one", udp, without_n);
        probe_equal("lock of the bound one", 1, is_locked(udp));
        probe_equal_text("what waited in the bound one", "yes", next(udp));
        PROBE_TRY(sendto(udp, "no", 2, 0, (struct sockaddr *)&name, sizeof name));
        PROBE_TRY(sendto(udp, "yea", 3, 0, (struct sockaddr *)&name, sizeof name));
        probe_equal_text("what comes to the bound one", "yea", next(udp));
        has("filter of the listener", listener, without_n);
        probe_equal("lock of the fresh one", 1, is_locked(fresh));
    } while (probe_more());
    return probe_pass();
}
