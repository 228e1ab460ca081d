// SPDX-License-Identifier: Apache-2.0
// TCP connections within a tree: between processes and within one, IPv4, IPv6 and both, with and
// without an open listener, from a port chosen by the caller, half closed, with much and with some
// data in flight in both directions, their addresses and options.
#include "passing.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

union address {
    struct sockaddr any;
    struct sockaddr_in four;
    struct sockaddr_in6 six;
};

struct ends {
    int accepted, caller;
    union address name[2], peer[2]; // addresses of both ends
};

enum { much = 150000 };

static int listener;
static union address at;
static unsigned char bytes[much];

// An address that no other test uses: 127.0.0.0/8 is all loopback.
static in_addr_t host;

static union address loopback(int family)
{
    union address address = {.any = {.sa_family = (sa_family_t)family}};
    if (family == AF_INET)
        address.four.sin_addr.s_addr = host;
    else
        address.six.sin6_addr = in6addr_loopback;
    return address;
}

// Binds a port outside the ephemeral range, so that it is free at a restart, too.
static int bound(union address *address)
{
    static unsigned next;
    const int fd = PROBE_TRY(socket(address->any.sa_family, SOCK_STREAM, 0));
    PROBE_TRY(setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &(int){1}, sizeof(int)));
    do {
        // sin_port and sin6_port are at the same offset.
        address->four.sin_port = htons((uint16_t)(10000 + (getpid() * 31u + next++) % 20000));
        if (bind(fd, &address->any, sizeof *address) == 0)
            return fd;
    } while (errno == EADDRINUSE);
    probe_fail("a port: %s", strerror(errno));
}

// A socket to connect with: its port is an ephemeral one, chosen at connect.
static int calling(int family)
{
    const int fd = PROBE_TRY(socket(family, SOCK_STREAM, 0));
    if (family == AF_INET) {
        const union address own = loopback(family);
        PROBE_TRY(setsockopt(fd, IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, &(int){1}, sizeof(int)));
        PROBE_TRY(bind(fd, &own.any, sizeof own));
    }
    return fd;
}

static int listening(union address *address)
{
    const int fd = bound(address);
    PROBE_TRY(listen(fd, 5));
    return fd;
}

static void note_names(const struct ends *ends, union address *name, union address *peer)
{
    const int fds[2] = {ends->accepted, ends->caller};
    for (int i = 0; i < 2; i++) {
        socklen_t size = sizeof(union address);
        memset(&name[i], 0, sizeof name[i]);
        PROBE_TRY(getsockname(fds[i], &name[i].any, &size));
        size = sizeof(union address);
        memset(&peer[i], 0, sizeof peer[i]);
        PROBE_TRY(getpeername(fds[i], &peer[i].any, &size));
    }
}

static struct ends connected(int from, int to, const union address *address)
{
    struct ends ends = {.caller = from};
    PROBE_TRY(connect(from, &address->any, sizeof *address));
    ends.accepted = PROBE_TRY(accept(to, NULL, NULL));
    note_names(&ends, ends.name, ends.peer);
    return ends;
}

static void check_names(const char *what, const struct ends *ends)
{
    union address name[2], peer[2];
    char text[64];
    note_names(ends, name, peer);
    snprintf(text, sizeof text, "%s: own addresses", what);
    probe_equal_bytes(text, ends->name, name, sizeof name);
    snprintf(text, sizeof text, "%s: addresses of the peers", what);
    probe_equal_bytes(text, ends->peer, peer, sizeof peer);
}

static void check_text(const char *what, int fd, const char *expected)
{
    char got[32] = "";
    const ssize_t size = recv(fd, got, sizeof got - 1, MSG_DONTWAIT);
    probe_equal(what, (long long)strlen(expected), size);
    probe_equal_text(what, expected, got);
}

static void check_end(const char *what, int fd)
{
    probe_equal(what, 0, recv(fd, &(char){0}, 1, MSG_DONTWAIT));
}

static void check_open(const char *what, const struct ends *ends)
{
    probe_equal(what, -1, recv(ends->caller, &(char){0}, 1, MSG_DONTWAIT));
    probe_equal(what, EAGAIN, errno);
    PROBE_TRY(send(ends->accepted, "later", 5, 0));
    char got[8] = "";
    probe_equal(what, 5, recv(ends->caller, got, 5, MSG_WAITALL));
    probe_equal_text(what, "later", got);
}

static int option(int fd, int level, int name)
{
    int value = 0;
    socklen_t size = sizeof value;
    PROBE_TRY(getsockopt(fd, level, name, &value, &size));
    return value;
}

static void set(int fd, int level, int name, int value)
{
    PROBE_TRY(setsockopt(fd, level, name, &value, sizeof value));
}

static void client(void)
{
    struct ends ends = {.caller = calling(AF_INET)};
    PROBE_TRY(connect(ends.caller, &at.any, sizeof at));
    ends.accepted = ends.caller;
    note_names(&ends, ends.name, ends.peer);
    PROBE_TRY(write(ends.caller, "question", 8));
    probe_await_check();
    check_names("client", &ends);
    char got[16] = "";
    probe_equal("size of the answer", 6, read(ends.caller, got, sizeof got));
    probe_equal_text("answer", "answer", got);
    const int again = calling(AF_INET);
    probe_equal("a second connect", 0, connect(again, &at.any, sizeof at));
    probe_equal("the end of the first", 0, read(ends.caller, got, 1));
}

int main(int argc, char **argv)
{
    probe_start(argc, argv);
    const unsigned id = (unsigned)getpid();
    host = htonl(127u << 24 | (1 + id / 62500 % 250) << 16 | (1 + id / 250 % 250) << 8 |
                 (1 + id % 250));
    // The machine may lack IPv6.
    union address six = loopback(AF_INET6);
    const int trial = socket(AF_INET6, SOCK_STREAM, 0);
    const bool has_six = trial >= 0 && bind(trial, &six.any, sizeof six) == 0;
    close(trial);
    do {
        at = loopback(AF_INET);
        listener = listening(&at);
        const pid_t member = probe_fork(client);
        const int server = PROBE_TRY(accept(listener, NULL, NULL));

        struct ends kept = connected(calling(AF_INET), listener, &at);
        PROBE_TRY(send(kept.caller, "to the server", 13, 0));
        PROBE_TRY(send(kept.accepted, "back", 4, 0));
        set(kept.caller, IPPROTO_TCP, TCP_NODELAY, 1);
        set(kept.caller, SOL_SOCKET, SO_KEEPALIVE, 1);
        set(kept.caller, IPPROTO_TCP, TCP_KEEPIDLE, 77);
        set(kept.caller, IPPROTO_TCP, TCP_USER_TIMEOUT, 12345);
        set(kept.accepted, SOL_SOCKET, SO_RCVBUF, 20000);
        set(kept.accepted, SOL_SOCKET, SO_RCVLOWAT, 3);

        union address gone = loopback(AF_INET), own = loopback(AF_INET);
        int to = listening(&gone);
        struct ends alone = connected(bound(&own), to, &gone);
        PROBE_TRY(close(to));
        PROBE_TRY(send(alone.caller, "alone", 5, 0));

        union address target = loopback(has_six ? AF_INET6 : AF_INET);
        to = listening(&target);
        struct ends half = connected(calling(target.any.sa_family), to, &target);
        PROBE_TRY(close(to));
        PROBE_TRY(send(half.caller, "the end", 7, 0));
        PROBE_TRY(shutdown(half.caller, SHUT_WR));

        target = loopback(has_six ? AF_INET6 : AF_INET);
        if (has_six)
            target.six.sin6_addr = in6addr_any;
        const int both = listening(&target);
        union address four = loopback(AF_INET);
        four.four.sin_port = has_six ? target.six.sin6_port : target.four.sin_port;
        struct ends mixed = connected(calling(AF_INET), both, &four);
        probe_fill(bytes, sizeof bytes, probe_cycle());
        // In packets of different sizes.
        set(mixed.accepted, SOL_SOCKET, SO_RCVBUF, 1 << 20);
        for (size_t done = 0, part = 1; done < sizeof bytes; done += part, part = part * 3 + 1) {
            part = part < sizeof bytes - done ? part : sizeof bytes - done;
            PROBE_TRY(send(mixed.caller, bytes + done, part, 0));
        }

        // A restart must not wait until the caller sends.
        set(both, IPPROTO_TCP, TCP_DEFER_ACCEPT, 3);
        const int deferred = option(both, IPPROTO_TCP, TCP_DEFER_ACCEPT);

        // Only a message holds this end.
        struct ends carried = connected(calling(AF_INET), listener, &at);
        PROBE_TRY(send(carried.caller, "carried", 7, 0));
        int way[2], files[most_files];
        PROBE_TRY(socketpair(AF_UNIX, SOCK_STREAM, 0, way));
        send_files(way[0], "x", 1, 1, &carried.accepted);
        PROBE_TRY(close(carried.accepted));

        probe_ready();
        PROBE_SABOTAGE("alone", recv(alone.accepted, &(char){0}, 1, 0));
        check_names("kept listener", &kept);
        check_names("no listener", &alone);
        check_names("half closed", &half);
        check_names("both families", &mixed);
        check_text("what was sent to the server", kept.accepted, "to the server");
        check_text("what was sent back", kept.caller, "back");
        check_open("kept listener: open", &kept);
        check_text("what was sent alone", alone.accepted, "alone");
        check_open("no listener: open", &alone);
        check_text("what was sent before the end", half.accepted, "the end");
        check_end("the end behind it", half.accepted);
        check_open("half closed: the other half", &half);
        for (size_t done = 0; done < sizeof bytes;)
            done += (size_t)PROBE_TRY(recv(mixed.accepted, bytes + done, sizeof bytes - done, 0));
        probe_filled("much", bytes, sizeof bytes, probe_cycle());
        check_open("both families: open", &mixed);
        probe_equal("no delay", 1, option(kept.caller, IPPROTO_TCP, TCP_NODELAY));
        probe_equal("no delay there", 0, option(kept.accepted, IPPROTO_TCP, TCP_NODELAY));
        probe_equal("keepalive", 1, option(kept.caller, SOL_SOCKET, SO_KEEPALIVE));
        probe_equal("keepalive idle", 77, option(kept.caller, IPPROTO_TCP, TCP_KEEPIDLE));
        probe_equal("user timeout", 12345, option(kept.caller, IPPROTO_TCP, TCP_USER_TIMEOUT));
        probe_equal("receive buffer", 40000, option(kept.accepted, SOL_SOCKET, SO_RCVBUF));
        probe_equal("low water", 3, option(kept.accepted, SOL_SOCKET, SO_RCVLOWAT));
        probe_equal("reuse of the caller", 0, option(kept.caller, SOL_SOCKET, SO_REUSEADDR));
        probe_equal("reuse of the listener", 1, option(listener, SOL_SOCKET, SO_REUSEADDR));

        char got[16] = "";
        probe_equal("deferred", deferred, option(both, IPPROTO_TCP, TCP_DEFER_ACCEPT));
        probe_equal("descriptors on their way", 1, receive_files(way[1], got, 1, files));
        carried.accepted = files[0];
        check_names("carried", &carried);
        check_text("what was sent where it was carried", carried.accepted, "carried");
        check_open("carried: open", &carried);
        probe_equal("size of the question", 8, read(server, got, sizeof got));
        probe_equal_text("question", "question", got);
        PROBE_TRY(write(server, "answer", 6));
        const int again = PROBE_TRY(accept(listener, NULL, NULL));
        close(server);
        probe_reap("client", member);
        close(again);
        // The address of alone.caller lingers in TIME_WAIT: a restart has to get it nevertheless.
        close(alone.caller);
        // This one must not linger: there is only one IPv6 loopback address for all runs.
        PROBE_TRY(setsockopt(half.caller, SOL_SOCKET, SO_LINGER, &(struct linger){1, 0},
                             sizeof(struct linger)));
        close(half.caller);
        const struct ends all[] = {kept,
                                   mixed,
                                   {.accepted = alone.accepted, .caller = half.accepted},
                                   {.accepted = both, .caller = listener},
                                   carried,
                                   {.accepted = way[0], .caller = way[1]}};
        for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
            close(all[i].accepted);
            close(all[i].caller);
        }
    } while (probe_more());
    return probe_pass();
}
