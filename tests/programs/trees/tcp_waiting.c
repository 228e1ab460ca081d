// SPDX-License-Identifier: Apache-2.0
// TCP connections that are not accepted yet: of a member and of the process itself, half closed,
// closed, and with another family than the listener's; accept returns them in order, with their
// addresses and options.
#include "probe.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>

union address {
    struct sockaddr any;
    struct sockaddr_in four;
    struct sockaddr_in6 six;
};

static in_addr_t host; // an address that no other test uses: 127.0.0.0/8 is all loopback
static union address at;

// At a port outside the ephemeral range, so that it is free at a restart, too.
static int listening(union address *address)
{
    static unsigned next;
    const int fd = PROBE_TRY(socket(address->any.sa_family, SOCK_STREAM, 0));
    PROBE_TRY(setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &(int){1}, sizeof(int)));
    do {
        // sin_port and sin6_port are at the same offset.
        address->four.sin_port = htons((uint16_t)(10000 + (getpid() * 31u + next++) % 20000));
        if (bind(fd, &address->any, sizeof *address) == 0) {
            PROBE_TRY(listen(fd, 5));
            return fd;
        }
    } while (errno == EADDRINUSE);
    probe_fail("a port: %s", strerror(errno));
}

// From an ephemeral port of this host.
static int call(in_port_t port)
{
    const union address own = {.four = {.sin_family = AF_INET, .sin_addr.s_addr = host}};
    union address to = own;
    const int fd = PROBE_TRY(socket(AF_INET, SOCK_STREAM, 0));
    PROBE_TRY(setsockopt(fd, IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, &(int){1}, sizeof(int)));
    PROBE_TRY(bind(fd, &own.any, sizeof own));
    to.four.sin_port = port;
    PROBE_TRY(connect(fd, &to.any, sizeof to));
    return fd;
}

// The kernel tells the order of connections by its clock, which ticks.
static void later(void)
{
    struct timespec begun, now;
    long passed_ms;
    PROBE_TRY(clock_gettime(CLOCK_MONOTONIC, &begun));
    do {
        PROBE_TRY(poll(NULL, 0, 10));
        PROBE_TRY(clock_gettime(CLOCK_MONOTONIC, &now));
        passed_ms = (now.tv_sec - begun.tv_sec) * 1000 + (now.tv_nsec - begun.tv_nsec) / 1000000;
    } while (passed_ms < 80);
}

static void member(void)
{
    const int fd = call(at.four.sin_port);
    probe_await_check();
    PROBE_TRY(write(fd, "member", 6));
    char got[8] = "";
    struct pollfd answer = {.fd = fd, .events = POLLIN};
    PROBE_TRY(poll(&answer, 1, -1));
    probe_equal("size of the answer to the member", 6, read(fd, got, sizeof got));
    probe_equal_text("answer to the member", "answer", got);
}

static struct sockaddr_in name_of(int fd, int (*ask)(int, struct sockaddr *, socklen_t *))
{
    union address name;
    socklen_t size = sizeof name;
    memset(&name, 0, sizeof name);
    PROBE_TRY(ask(fd, &name.any, &size));
    struct sockaddr_in four = {.sin_family = AF_INET};
    four.sin_port = name.four.sin_port;
    four.sin_addr = name.four.sin_addr;
    if (name.any.sa_family == AF_INET6)
        memcpy(&four.sin_addr, &name.six.sin6_addr.s6_addr[12], sizeof four.sin_addr);
    return four;
}

static int own_name(int fd, struct sockaddr *name, socklen_t *size)
{
    return getsockname(fd, name, size);
}

static int name_of_peer(int fd, struct sockaddr *name, socklen_t *size)
{
    return getpeername(fd, name, size);
}

// Accepts, and reads what its caller writes now.
static int expect(const char *what, int listener, int caller, const struct sockaddr_in *was)
{
    if (caller >= 0) {
        const struct sockaddr_in now = name_of(caller, own_name);
        probe_equal_bytes(what, was, &now, sizeof now);
        PROBE_TRY(write(caller, what, strlen(what)));
    }
    const int fd = PROBE_TRY(accept(listener, NULL, NULL));
    char got[16] = "";
    probe_equal(what, (long long)strlen(what), read(fd, got, sizeof got - 1));
    probe_equal_text(what, what, got);
    if (caller >= 0) {
        const struct sockaddr_in peer = name_of(fd, name_of_peer);
        probe_equal_bytes(what, was, &peer, sizeof peer);
        const struct sockaddr_in here = name_of(fd, own_name);
        const struct sockaddr_in there = name_of(caller, name_of_peer);
        probe_equal_bytes(what, &here, &there, sizeof here);
    }
    PROBE_TRY(write(fd, "answer", 6));
    return fd;
}

int main(int argc, char **argv)
{
    probe_start(argc, argv);
    const unsigned id = (unsigned)getpid();
    host = htonl(127u << 24 | (1 + id / 62500 % 250) << 16 | (1 + id / 250 % 250) << 8 |
                 (1 + id % 250));
    const int trial = socket(AF_INET6, SOCK_STREAM, 0); // the machine may lack IPv6
    const union address any = {.any = {.sa_family = AF_INET6}};
    const bool has_six = trial >= 0 && bind(trial, &any.any, sizeof any) == 0;
    close(trial);
    do {
        at = (union address){.any = {.sa_family = AF_INET}}; // of all hosts
        const int listener = listening(&at);
        const int first = call(at.four.sin_port);
        PROBE_TRY(setsockopt(first, IPPROTO_TCP, TCP_NODELAY, &(int){1}, sizeof(int)));
        later();
        const pid_t second = probe_fork(member);
        later();
        const int third = call(at.four.sin_port);
        later();
        const int half = call(at.four.sin_port);
        PROBE_TRY(shutdown(half, SHUT_WR));
        later();
        const int gone = call(at.four.sin_port);
        const struct sockaddr_in name_of_gone = name_of(gone, own_name);
        close(gone);
        union address both = {.any = {.sa_family = has_six ? AF_INET6 : AF_INET}};
        const int wide = listening(&both);
        const int mixed = call(both.four.sin_port);
        const struct sockaddr_in names[] = {name_of(first, own_name), name_of(third, own_name),
                                            name_of(mixed, own_name)};

        probe_ready();
        PROBE_SABOTAGE("first", close(PROBE_TRY(accept(listener, NULL, NULL))));
        struct pollfd ready[] = {{.fd = listener, .events = POLLIN},
                                 {.fd = wide, .events = POLLIN}};
        probe_equal("listeners where somebody waits", 2, poll(ready, 2, 0));
        int delay = 0;
        socklen_t size = sizeof delay;
        PROBE_TRY(getsockopt(first, IPPROTO_TCP, TCP_NODELAY, &delay, &size));
        probe_equal("no delay of the first", 1, delay);
        signal(SIGPIPE, SIG_IGN);
        int accepted[4];
        accepted[0] = expect("first", listener, first, &names[0]);
        accepted[1] = expect("member", listener, -1, NULL);
        accepted[2] = expect("third", listener, third, &names[1]);
        accepted[3] = expect("mixed", wide, mixed, &names[2]);
        const int ended = PROBE_TRY(accept(listener, NULL, NULL));
        probe_equal("the half closed one", 0, read(ended, &(char){0}, 1));
        PROBE_TRY(write(ended, "yes", 3));
        char got[8] = "";
        probe_equal("its other half", 3, read(half, got, sizeof got));
        const int left = PROBE_TRY(accept(listener, NULL, NULL));
        const struct sockaddr_in caller = name_of(left, name_of_peer);
        probe_equal_bytes("the closed one", &name_of_gone, &caller, sizeof caller);
        probe_equal("the closed one", 0, read(left, got, sizeof got));
        PROBE_TRY(fcntl(listener, F_SETFL, O_NONBLOCK));
        probe_equal("one too many", -1, accept(listener, NULL, NULL));
        probe_equal("why there is none", EAGAIN, errno);
        probe_reap("member", second);
        const int all[] = {listener, wide, first, third, half, mixed, ended, left};
        for (size_t i = 0; i < sizeof accepted / sizeof *accepted; i++)
            close(accepted[i]);
        for (size_t i = 0; i < sizeof all / sizeof *all; i++)
            close(all[i]);
    } while (probe_more());
    return probe_pass();
}
