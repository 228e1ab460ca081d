// SPDX-License-Identifier: Apache-2.0
// UNIX connections that are not accepted yet: of members and of the process itself, streams and
// packets, with a name and without, half closed; accept returns them in order.
#include "probe.h"

#include <poll.h>
#include <stddef.h>
#include <sys/socket.h>
#include <sys/un.h>

static const struct sockaddr_un stream = {.sun_family = AF_UNIX, .sun_path = "waiting.stream"};
static const struct sockaddr_un packets = {.sun_family = AF_UNIX, .sun_path = "waiting.packets"};

static int listening(int kind, const struct sockaddr_un *at)
{
    unlink(at->sun_path);
    const int fd = PROBE_TRY(socket(AF_UNIX, kind, 0));
    PROBE_TRY(bind(fd, (const struct sockaddr *)at, sizeof *at));
    PROBE_TRY(listen(fd, 3));
    return fd;
}

static int call(int kind, const struct sockaddr_un *to, const char *from)
{
    const int fd = PROBE_TRY(socket(AF_UNIX, kind | SOCK_NONBLOCK, 0));
    if (from != NULL) {
        struct sockaddr_un own = {.sun_family = AF_UNIX};
        const int n = snprintf(own.sun_path + 1, sizeof own.sun_path - 1, "probe.%d.%u.%s",
                               getpid(), probe_cycle(), from);
        PROBE_TRY(bind(fd, (struct sockaddr *)&own,
                       (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)n)));
    }
    PROBE_TRY(connect(fd, (const struct sockaddr *)to, sizeof *to));
    return fd;
}

static void member(void)
{
    const int fd = call(SOCK_STREAM, &stream, NULL);
    probe_await_check();
    PROBE_TRY(write(fd, "member", 6));
    char got[8] = "";
    struct pollfd answer = {.fd = fd, .events = POLLIN};
    PROBE_TRY(poll(&answer, 1, -1));
    probe_equal("size of the answer to the member", 6, read(fd, got, sizeof got));
    probe_equal_text("answer to the member", "answer", got);
}

static void expect(const char *what, int listener, const char *text)
{
    const int fd = PROBE_TRY(accept(listener, NULL, NULL));
    char got[16] = "";
    struct ucred peer = {0};
    socklen_t size = sizeof peer;
    PROBE_TRY(getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size));
    probe_equal("user at the other end", getuid(), peer.uid);
    probe_equal(what, (long long)strlen(text), read(fd, got, sizeof got - 1));
    probe_equal_text(what, text, got);
    PROBE_TRY(write(fd, "answer", 6));
    close(fd);
}

int main(int argc, char **argv)
{
    probe_start(argc, argv);
    PROBE_TRY(chdir(probe_path(".")));
    do {
        const int streams = listening(SOCK_STREAM, &stream);
        const int packet = listening(SOCK_SEQPACKET, &packets);
        const int first = call(SOCK_STREAM, &stream, "first");
        const pid_t second = probe_fork(member);
        const int third = call(SOCK_STREAM, &stream, NULL);
        const int other = call(SOCK_SEQPACKET, &packets, NULL);
        const int half = call(SOCK_STREAM, &stream, NULL);
        PROBE_TRY(shutdown(half, SHUT_WR));

        probe_ready();
        PROBE_SABOTAGE("first", close(PROBE_TRY(accept(streams, NULL, NULL))));
        struct pollfd ready[] = {{.fd = streams, .events = POLLIN},
                                 {.fd = packet, .events = POLLIN}};
        probe_equal("listeners where somebody waits", 2, poll(ready, 2, 0));
        struct sockaddr_un name = {0};
        socklen_t size = sizeof name;
        PROBE_TRY(getpeername(first, (struct sockaddr *)&name, &size));
        probe_equal_text("whom the first has called", stream.sun_path, name.sun_path);
        signal(SIGPIPE, SIG_IGN);
        probe_equal("first: writing", 5, write(first, "first", 5));
        PROBE_TRY(write(third, "third", 5));
        PROBE_TRY(write(other, "packet", 6));
        expect("the first", streams, "first");
        expect("the member", streams, "member");
        expect("the third", streams, "third");
        const int ended = PROBE_TRY(accept(streams, NULL, NULL));
        probe_equal("the half closed one", 0, read(ended, &(char){0}, 1));
        PROBE_TRY(write(ended, "yes", 3));
        char got[8] = "";
        probe_equal("its other half", 3, read(half, got, sizeof got));
        expect("the packet", packet, "packet");
        PROBE_TRY(fcntl(streams, F_SETFL, O_NONBLOCK));
        probe_equal("one too many", -1, accept(streams, NULL, NULL));
        probe_equal("why there is none", EAGAIN, errno);
        probe_reap("member", second);
        const int all[] = {streams, packet, first, third, other, half, ended};
        for (size_t i = 0; i < sizeof all / sizeof *all; i++)
            close(all[i]);
    } while (probe_more());
    return probe_pass();
}
