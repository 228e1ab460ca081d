// SPDX-License-Identifier: Apache-2.0
// UDP within a tree: sockets that are connected, to each other or one to the other, between
// processes and within one, IPv4, IPv6 and both; and waiting datagrams, in order and with their
// senders' addresses, whether the senders still exist or not.
#include "probe.h"

#include <arpa/inet.h>
#include <linux/sock_diag.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>

#ifndef SO_MEMINFO
#define SO_MEMINFO 55
#endif

union address {
    struct sockaddr any;
    struct sockaddr_in four;
    struct sockaddr_in6 six;
};

struct end {
    int fd;
    union address at;
};

// An address that no other test uses: 127.0.0.0/8 is all loopback.
static in_addr_t host;
static struct end server;

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
static struct end bound(union address at)
{
    static unsigned next;
    struct end end = {.fd = PROBE_TRY(socket(at.any.sa_family, SOCK_DGRAM, 0)), .at = at};
    do {
        // sin_port and sin6_port are at the same offset.
        end.at.four.sin_port = htons((uint16_t)(10000 + (getpid() * 31u + next++) % 20000));
        if (bind(end.fd, &end.at.any, sizeof end.at) == 0)
            return end;
    } while (errno == EADDRINUSE);
    probe_fail("a port: %s", strerror(errno));
}

static struct end bound_to(in_addr_t to)
{
    union address at = loopback(AF_INET);
    at.four.sin_addr.s_addr = to;
    return bound(at);
}

// The address that senders here use to reach it.
static union address seen_as(const struct end *end, in_addr_t as)
{
    union address at = end->at;
    at.four.sin_addr.s_addr = as;
    return at;
}

static union address mapped(const union address *four)
{
    union address six = {.six = {.sin6_family = AF_INET6, .sin6_port = four->four.sin_port}};
    six.six.sin6_addr.s6_addr[10] = six.six.sin6_addr.s6_addr[11] = 0xff;
    memcpy(&six.six.sin6_addr.s6_addr[12], &four->four.sin_addr, 4);
    return six;
}

static unsigned waits_in(int fd)
{
    unsigned numbers[SK_MEMINFO_VARS] = {0};
    socklen_t size = sizeof numbers;
    PROBE_TRY(getsockopt(fd, SOL_SOCKET, SO_MEMINFO, numbers, &size));
    return numbers[SK_MEMINFO_RMEM_ALLOC];
}

// Returns once it has arrived: a checkpoint saves only what has arrived.
static void send_to(int from, const union address *to, int receiver, const char *text)
{
    const unsigned before = waits_in(receiver);
    probe_equal("bytes sent", (long long)strlen(text),
                PROBE_TRY(sendto(from, text, strlen(text), 0, &to->any, sizeof *to)));
    while (waits_in(receiver) == before)
        poll(NULL, 0, 1);
}

static void expect(const char *what, int fd, const union address *from, const char *text, int flags)
{
    char got[32] = "";
    union address sender = {0};
    socklen_t size = sizeof sender;
    const ssize_t n = recvfrom(fd, got, sizeof got - 1, flags, &sender.any, &size);
    probe_equal(what, (long long)strlen(text), n);
    probe_equal_text(what, text, got);
    probe_equal_bytes(what, from, &sender, sizeof sender);
}

static void expect_nothing(const char *what, int fd)
{
    probe_equal(what, -1, recv(fd, &(char){0}, 1, MSG_DONTWAIT));
    probe_equal(what, EAGAIN, errno);
}

static void expect_names(const char *what, const struct end *end, const union address *peer)
{
    union address now = {0};
    socklen_t size = sizeof now;
    PROBE_TRY(getsockname(end->fd, &now.any, &size));
    probe_equal_bytes(what, &end->at, &now, sizeof now);
    memset(&now, 0, sizeof now);
    size = sizeof now;
    PROBE_TRY(getpeername(end->fd, &now.any, &size));
    probe_equal_bytes(what, peer, &now, sizeof now);
}

static void connect_to(const struct end *end, const union address *peer)
{
    PROBE_TRY(connect(end->fd, &peer->any, sizeof *peer));
}

static void client(void)
{
    const struct end end = bound_to(host);
    const union address to = seen_as(&server, htonl(INADDR_LOOPBACK)); // its answering address
    connect_to(&end, &to);
    send_to(end.fd, &to, server.fd, "question");
    PROBE_TRY(close(server.fd));
    probe_await_check();
    expect_names("client", &end, &to);
    expect("answer", end.fd, &to, "answer", 0);
    close(end.fd);
}

struct pair {
    struct end one, other;
};

static struct pair pair_of(int family)
{
    const struct pair pair = {bound(loopback(family)), bound(loopback(family))};
    connect_to(&pair.one, &pair.other.at);
    connect_to(&pair.other, &pair.one.at);
    send_to(pair.one.fd, &pair.other.at, pair.other.fd, "one");
    send_to(pair.one.fd, &pair.other.at, pair.other.fd, "");
    send_to(pair.one.fd, &pair.other.at, pair.other.fd, "three");
    send_to(pair.other.fd, &pair.one.at, pair.one.fd, "back");
    return pair;
}

static void check_pair(const struct pair *pair)
{
    expect_names("one of a pair", &pair->one, &pair->other.at);
    expect_names("the other of a pair", &pair->other, &pair->one.at);
    expect("pair: one", pair->other.fd, &pair->one.at, "one", MSG_DONTWAIT);
    expect("pair: the empty one", pair->other.fd, &pair->one.at, "", MSG_DONTWAIT);
    expect("pair: three", pair->other.fd, &pair->one.at, "three", MSG_DONTWAIT);
    expect("pair: back", pair->one.fd, &pair->other.at, "back", MSG_DONTWAIT);
    expect_nothing("pair: behind it", pair->other.fd);
    PROBE_TRY(send(pair->other.fd, "later", 5, 0));
    expect("pair: later", pair->one.fd, &pair->other.at, "later", 0);
    PROBE_TRY(close(pair->one.fd));
    PROBE_TRY(close(pair->other.fd));
}

int main(int argc, char **argv)
{
    probe_start(argc, argv);
    const unsigned id = (unsigned)getpid();
    host = htonl(127u << 24 | (1 + id / 62500 % 250) << 16 | (1 + id / 250 % 250) << 8 |
                 (1 + id % 250));
    // The machine may lack IPv6.
    const union address six = loopback(AF_INET6);
    const int trial = socket(AF_INET6, SOCK_DGRAM, 0);
    const bool has_six = trial >= 0 && bind(trial, &six.any, sizeof six) == 0;
    close(trial);
    do {
        server = bound_to(htonl(INADDR_ANY));
        const union address at = seen_as(&server, htonl(INADDR_LOOPBACK));
        const union address at_host = seen_as(&server, host);
        const struct end living = bound_to(host), all = bound_to(htonl(INADDR_ANY));
        const union address usual = seen_as(&all, htonl(INADDR_LOOPBACK));
        const struct end gone = bound_to(host);
        send_to(living.fd, &at_host, server.fd, "first");
        send_to(gone.fd, &at_host, server.fd, "second");
        send_to(living.fd, &at, server.fd, "");
        send_to(all.fd, &at, server.fd, "fourth");
        send_to(gone.fd, &at_host, server.fd, "fifth");
        PROBE_TRY(close(gone.fd));
        char large[9001];
        memset(large, 'x', sizeof large - 1);
        large[sizeof large - 1] = 0;
        send_to(all.fd, &at, server.fd, large);
        const unsigned before = waits_in(server.fd);
        const pid_t member = probe_fork(client);
        while (waits_in(server.fd) == before)
            poll(NULL, 0, 1);

        const struct pair four = pair_of(AF_INET);
        // Datagrams from before the connect stay; other senders are refused now.
        const struct end later = bound_to(host);
        send_to(living.fd, &later.at, later.fd, "before");
        connect_to(&later, &at);

        struct pair pair;
        struct end both, from_six;
        const union address as_four = mapped(&living.at);
        if (has_six) {
            pair = pair_of(AF_INET6);
            union address any = loopback(AF_INET6);
            any.six.sin6_addr = in6addr_any;
            both = bound(any);
            from_six = bound(loopback(AF_INET6));
            union address to = both.at;
            to.six.sin6_addr = in6addr_loopback;
            send_to(from_six.fd, &to, both.fd, "by IPv6");
            to = loopback(AF_INET);
            to.four.sin_port = both.at.six.sin6_port;
            send_to(living.fd, &to, both.fd, "by IPv4");
            connect_to(&from_six, &pair.one.at);
        }

        probe_ready();
        PROBE_SABOTAGE("server", recv(server.fd, large, 1, 0));
        PROBE_SABOTAGE("pair", recv(four.other.fd, large, 1, 0));
        PROBE_SABOTAGE("connected", connect(later.fd, &living.at.any, sizeof living.at));
        expect("first datagram to the server", server.fd, &living.at, "first", MSG_DONTWAIT);
        expect("second datagram", server.fd, &gone.at, "second", MSG_DONTWAIT);
        expect("third datagram, an empty one", server.fd, &living.at, "", MSG_DONTWAIT);
        expect("fourth datagram", server.fd, &usual, "fourth", MSG_DONTWAIT);
        expect("fifth datagram", server.fd, &gone.at, "fifth", MSG_DONTWAIT);
        probe_equal("a large datagram", (long long)strlen(large),
                    recv(server.fd, large, sizeof large, MSG_DONTWAIT | MSG_TRUNC));
        char got[16] = "";
        union address who = {0};
        socklen_t size = sizeof who;
        probe_equal("size of the question", 8,
                    recvfrom(server.fd, got, sizeof got, MSG_DONTWAIT, &who.any, &size));
        probe_equal_text("question", "question", got);
        expect_nothing("behind the last datagram", server.fd);
        PROBE_TRY(sendto(server.fd, "answer", 6, 0, &who.any, sizeof who));
        probe_reap("client", member);

        check_pair(&four);
        expect_names("connected later", &later, &at);
        expect("before it was connected", later.fd, &living.at, "before", MSG_DONTWAIT);
        PROBE_TRY(sendto(living.fd, "no", 2, 0, &later.at.any, sizeof later.at));
        PROBE_TRY(sendto(server.fd, "yes", 3, 0, &later.at.any, sizeof later.at));
        expect("of its peer", later.fd, &at, "yes", 0);
        PROBE_TRY(send(later.fd, "to it", 5, 0));
        expect("to its peer", server.fd, &later.at, "to it", 0);
        if (has_six) {
            expect("by IPv6", both.fd, &from_six.at, "by IPv6", MSG_DONTWAIT);
            expect("by IPv4", both.fd, &as_four, "by IPv4", MSG_DONTWAIT);
            expect_names("connected by IPv6", &from_six, &pair.one.at);
            check_pair(&pair);
            PROBE_TRY(close(both.fd));
            PROBE_TRY(close(from_six.fd));
        }
        PROBE_TRY(close(server.fd));
        PROBE_TRY(close(living.fd));
        PROBE_TRY(close(all.fd));
        PROBE_TRY(close(later.fd));
    } while (probe_more());
    return probe_pass();
}
