// SPDX-License-Identifier: Apache-2.0
// Whom UNIX sockets name as their peer (SO_PEERCRED): pairs the process that has made them; the
// caller's end of a connection the one that listens, the accepted end the one that has connected,
// also where that is accepted later.
#include "probe.h"

#include <sys/socket.h>
#include <sys/un.h>

enum { COUNT = 3 };

static const int types[COUNT] = {SOCK_STREAM, SOCK_DGRAM, SOCK_SEQPACKET};
static const struct sockaddr_un stream = {.sun_family = AF_UNIX, .sun_path = "peers.stream"};
static const struct sockaddr_un packets = {.sun_family = AF_UNIX, .sun_path = "peers.packets"};
static int pairs[COUNT][2];

static int listening(int kind, const struct sockaddr_un *at)
{
    unlink(at->sun_path);
    const int fd = PROBE_TRY(socket(AF_UNIX, kind, 0));
    PROBE_TRY(bind(fd, (const struct sockaddr *)at, sizeof *at));
    PROBE_TRY(listen(fd, 3));
    return fd;
}

static int calling(int kind, const struct sockaddr_un *to)
{
    const int fd = PROBE_TRY(socket(AF_UNIX, kind, 0));
    PROBE_TRY(connect(fd, (const struct sockaddr *)to, sizeof *to));
    return fd;
}

static void expect(const char *what, int fd, pid_t pid)
{
    struct ucred peer = {0};
    socklen_t size = sizeof peer;
    PROBE_TRY(getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size));
    if (!probe_told("newids")) {
        probe_equal(what, pid, peer.pid);
    }
    probe_equal("user at the other end", geteuid(), peer.uid);
    probe_equal("group at the other end", getegid(), peer.gid);
}

static void member(void)
{
    int own[2];
    PROBE_TRY(socketpair(AF_UNIX, SOCK_STREAM, 0, own));
    const int calls[] = {calling(SOCK_STREAM, &stream), calling(SOCK_SEQPACKET, &packets),
                         calling(SOCK_STREAM, &stream)}; // nobody accepts the last one yet
    for (int again = 0; again < 2; again++) {
        expect("one end of the member's own pair", own[0], getpid());
        expect("its other end", own[1], getpid());
        for (int i = 0; i < COUNT; i++) {
            expect("the member's end of a pair of its parent", pairs[i][1], getppid());
            expect("the member's end of a connection", calls[i], getppid());
        }
        if (again == 0) {
            probe_await_check();
        }
    }
}

int main(int argc, char **argv)
{
    probe_start(argc, argv);
    PROBE_TRY(chdir(probe_path(".")));
    const int listeners[] = {listening(SOCK_STREAM, &stream), listening(SOCK_SEQPACKET, &packets)};
    do {
        for (int i = 0; i < COUNT; i++) {
            PROBE_TRY(socketpair(AF_UNIX, types[i], 0, pairs[i]));
        }
        const pid_t caller = probe_fork(member);
        int accepted[COUNT];
        for (int i = 0; i < 2; i++) {
            accepted[i] = PROBE_TRY(accept(listeners[i], NULL, NULL));
            expect("an accepted end, before", accepted[i], caller);
        }

        probe_ready();
        PROBE_SABOTAGE("pair", PROBE_TRY(dup2(accepted[0], pairs[0][0])));
        PROBE_SABOTAGE("accepted", PROBE_TRY(dup2(pairs[0][0], accepted[0])));
        for (int i = 0; i < COUNT; i++) {
            expect("an end of a pair", pairs[i][0], getpid());
        }
        accepted[2] = PROBE_TRY(accept(listeners[0], NULL, NULL));
        for (int i = 0; i < COUNT; i++) {
            expect("an accepted end", accepted[i], caller);
        }
        probe_reap("member", caller);
        for (int i = 0; i < COUNT; i++) {
            close(pairs[i][0]);
            close(pairs[i][1]);
            close(accepted[i]);
        }
    } while (probe_more());
    return probe_pass();
}
