// SPDX-License-Identifier: Apache-2.0
// Calls that sleep when they have moved a part of their data: the rest follows, and they return the
// size of all of it.
#include "probe.h"

#include <sys/socket.h>
#include <sys/uio.h>

enum { PAGE = 4096, LITTLE = 3 * PAGE, MUCH = 1 << 20, FEW = 3 };

static char block[MUCH], got[MUCH], few[2][FEW];

// The part that is moved at once ends within the second vector.
static struct iovec *vectors(size_t size)
{
    static struct iovec parts[2][4];
    struct iovec *of = parts[size == MUCH];
    of[0] = (struct iovec){block, 100};
    of[1] = (struct iovec){block + 100, size - 300};
    of[2] = (struct iovec){block + size - 200, 0};
    of[3] = (struct iovec){block + size - 200, 200};
    return of;
}

static long by_write(int fd)
{
    return write(fd, block, LITTLE);
}

static long by_write_number(int fd)
{
    return syscall(SYS_write, fd, block, LITTLE);
}

static long by_writev(int fd)
{
    return writev(fd, vectors(LITTLE), 4);
}

static long by_send(int fd)
{
    return send(fd, block, MUCH, 0);
}

static long by_sendto(int fd)
{
    return sendto(fd, block, MUCH, 0, NULL, 0);
}

static long by_sendmsg(int fd)
{
    const struct msghdr message = {.msg_iov = vectors(MUCH), .msg_iovlen = 4};
    return sendmsg(fd, &message, 0);
}

static long by_recv(int fd)
{
    return recv(fd, few[0], FEW, MSG_WAITALL);
}

static long by_recvfrom_number(int fd)
{
    return syscall(SYS_recvfrom, fd, few[1], FEW, MSG_WAITALL, NULL, NULL);
}

static struct mover {
    const char *name;
    long number; // of the system call
    long (*call)(int fd);
    long size;
    char *received; // NULL: it sends
    int own, other; // its descriptor, and the other end
    struct probe_sleeper sleeper;
} movers[] = {
    {.name = "write", .number = SYS_write, .call = by_write, .size = LITTLE},
    {.name = "write by number", .number = SYS_write, .call = by_write_number, .size = LITTLE},
    {.name = "writev", .number = SYS_writev, .call = by_writev, .size = LITTLE},
    {.name = "send", .number = SYS_sendto, .call = by_send, .size = MUCH},
    {.name = "sendto", .number = SYS_sendto, .call = by_sendto, .size = MUCH},
    {.name = "sendmsg", .number = SYS_sendmsg, .call = by_sendmsg, .size = MUCH},
    {.name = "recv", .number = SYS_recvfrom, .call = by_recv, .size = FEW, .received = few[0]},
    {.name = "recvfrom by number",
     .number = SYS_recvfrom,
     .call = by_recvfrom_number,
     .size = FEW,
     .received = few[1]},
};

enum { MOVERS = sizeof movers / sizeof movers[0] };

static long make_call(void *argument)
{
    const struct mover *mover = argument;
    return mover->call(mover->own);
}

static void connect_ends(struct mover *mover)
{
    int ends[2];
    if (mover->size == LITTLE) {
        PROBE_TRY(pipe(ends));
        PROBE_TRY(fcntl(ends[0], F_SETPIPE_SZ, PAGE));
    } else {
        PROBE_TRY(socketpair(AF_UNIX, SOCK_STREAM, 0, ends));
        int little = 65536; // whatever the machine's default is
        PROBE_TRY(setsockopt(ends[1], SOL_SOCKET, SO_SNDBUF, &little, sizeof(little)));
    }
    mover->other = ends[0];
    mover->own = ends[1];
}

static void begin(struct mover *mover)
{
    if (mover->received != NULL) {
        memset(mover->received, 0, FEW);
        PROBE_TRY(write(mover->other, "a", 1));
    }
    probe_sleep_in(&mover->sleeper, mover->number, make_call, mover);
}

static void take_all(const struct mover *mover)
{
    for (long taken = 0; taken < mover->size;) {
        taken += PROBE_TRY(read(mover->other, got + taken, (size_t)(mover->size - taken)));
    }
}

static void check(struct mover *mover)
{
    probe_still_asleep(mover->name, &mover->sleeper);
    if (mover->received != NULL) {
        PROBE_TRY(write(mover->other, "bc", 2));
        probe_woken(mover->name, &mover->sleeper, FEW, 0);
        probe_equal_bytes(mover->name, "abc", mover->received, FEW);
    } else {
        take_all(mover);
        probe_woken(mover->name, &mover->sleeper, mover->size, 0);
        probe_equal_bytes(mover->name, block, got, (size_t)mover->size);
    }
}

int main(int argc, char **argv)
{
    probe_start(argc, argv);
    for (int i = 0; i < MOVERS; i++) {
        connect_ends(&movers[i]);
    }
    do {
        probe_fill(block, MUCH, probe_cycle());
        for (int i = 0; i < MOVERS; i++) {
            begin(&movers[i]);
        }
        probe_ready();
        PROBE_SABOTAGE("write", take_all(&movers[0]); probe_await("end", &movers[0].sleeper.done));
        for (int i = 0; i < MOVERS; i++) {
            check(&movers[i]);
        }
    } while (probe_more());
    return probe_pass();
}
