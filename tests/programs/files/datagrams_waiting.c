// SPDX-License-Identifier: Apache-2.0
// Datagrams that wait in UNIX sockets: from closed senders, with and without a name, with and
// without the file of that name, and from one that is still open; with descriptors; in the
// remaining end of a pair; and in a socket that has been connected since.
#include "passing.h"

#include <stddef.h>
#include <sys/un.h>

struct name {
    struct sockaddr_un address;
    socklen_t size;
};

static struct name file_name(const char *path)
{
    struct name name = {.address = {.sun_family = AF_UNIX}};
    snprintf(name.address.sun_path, sizeof name.address.sun_path, "%s", path);
    name.size = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + strlen(path) + 1);
    return name;
}

static struct name abstract_name(const char *text)
{
    struct name name = {.address = {.sun_family = AF_UNIX}};
    const int n = snprintf(name.address.sun_path + 1, sizeof name.address.sun_path - 1,
                           "probe.%d.%u.%s", getpid(), probe_cycle(), text);
    name.size = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)n);
    return name;
}

static const struct name nobody;

static int named(const struct name *name)
{
    const int fd = (int)PROBE_TRY(socket(AF_UNIX, SOCK_DGRAM, 0));
    if (name->size > 0)
        PROBE_TRY(bind(fd, (const struct sockaddr *)&name->address, name->size));
    return fd;
}

static void send_to(int from, const struct name *to, const char *text)
{
    probe_equal("bytes sent", (long long)strlen(text),
                PROBE_TRY(sendto(from, text, strlen(text), 0, (const struct sockaddr *)&to->address,
                                 to->size)));
}

static void send_one(const struct name *from, const struct name *to, const char *text)
{
    const int fd = named(from);
    send_to(fd, to, text);
    PROBE_TRY(close(fd));
}

static void expect(const char *what, int fd, const struct name *from, const char *text)
{
    char got[64] = "";
    struct name sender = {.size = sizeof sender.address};
    const ssize_t size = recvfrom(fd, got, sizeof got - 1, MSG_DONTWAIT,
                                  (struct sockaddr *)&sender.address, &sender.size);
    probe_equal(what, (long long)strlen(text), size);
    probe_equal_text(what, text, got);
    probe_equal(what, from->size, sender.size);
    probe_equal_bytes(what, &from->address, &sender.address, from->size);
}

static void expect_nothing(const char *what, int fd)
{
    probe_equal(what, -1, recv(fd, &(char){0}, 1, MSG_DONTWAIT));
    probe_equal(what, EAGAIN, errno);
}

static void expect_mode(const char *path, unsigned mode)
{
    struct stat status;
    PROBE_TRY(lstat(path, &status));
    probe_true("whether a dead sender has left its file", S_ISSOCK(status.st_mode));
    probe_equal("mode of that file", mode, status.st_mode & 07777);
}

int main(int argc, char **argv)
{
    probe_start(argc, argv);
    PROBE_TRY(chdir(probe_path(".")));
    do {
        const struct name server = file_name("datagrams.server"), left = file_name("./left");
        const struct name removed = file_name("removed"), living = file_name("living");
        const struct name abstract = abstract_name("sender"), later = abstract_name("later");
        const struct name peer = abstract_name("peer"), quiet = abstract_name("quiet");
        const char *files[] = {"datagrams.server", "left", "removed", "living"};
        for (size_t i = 0; i < sizeof files / sizeof *files; i++)
            unlink(files[i]);

        const int receiver = named(&server);
        const int again = named(&left);
        PROBE_TRY(chmod("left", 0640));
        send_to(again, &server, "first");
        send_one(&nobody, &server, "second");
        send_to(again, &server, "");
        PROBE_TRY(close(again));
        send_one(&removed, &server, "fourth");
        PROBE_TRY(unlink("removed"));
        send_one(&abstract, &server, "fifth");
        const int alive = named(&living);
        PROBE_TRY(connect(alive, (const struct sockaddr *)&server.address, server.size));
        PROBE_TRY(send(alive, "sixth", 5, 0));

        const int holder = named(&nobody);
        PROBE_TRY(connect(holder, (const struct sockaddr *)&server.address, server.size));
        int pipe_ends[2];
        PROBE_TRY(pipe(pipe_ends));
        PROBE_TRY(write(pipe_ends[1], "in the pipe", 11));
        send_files(holder, "seventh", 7, 1, (int[]){pipe_ends[0]});
        close_files(3, (int[]){pipe_ends[0], pipe_ends[1], holder});

        int pair[2];
        PROBE_TRY(socketpair(AF_UNIX, SOCK_DGRAM, 0, pair));
        PROBE_TRY(send(pair[0], "one", 3, 0));
        PROBE_TRY(send(pair[0], "", 0, 0));
        PROBE_TRY(send(pair[0], "three", 5, 0));
        PROBE_TRY(close(pair[0]));

        // Datagrams from before the connect stay; other senders are refused now.
        const int connected = named(&later), other = named(&peer);
        send_one(&nobody, &later, "before");
        PROBE_TRY(connect(connected, (const struct sockaddr *)&peer.address, peer.size));
        send_to(other, &later, "after");

        // Shut down without ever having been connected.
        const int shut = named(&quiet);
        send_to(alive, &quiet, "before that");
        PROBE_TRY(shutdown(shut, SHUT_RD));

        probe_ready();
        PROBE_SABOTAGE("shut down", dup2(alive, shut));
        PROBE_SABOTAGE("first", recv(receiver, (char[8]){0}, 8, 0));
        PROBE_SABOTAGE("what is left", recv(pair[1], (char[8]){0}, 8, 0));
        PROBE_SABOTAGE("before", recv(connected, (char[8]){0}, 8, 0));
        expect_mode("left", 0640);
        probe_equal("whether a name that was removed is back", -1, access("removed", F_OK));
        expect("first datagram", receiver, &left, "first");
        expect("second datagram", receiver, &nobody, "second");
        expect("third datagram, an empty one", receiver, &left, "");
        expect("fourth datagram", receiver, &removed, "fourth");
        expect("fifth datagram", receiver, &abstract, "fifth");
        expect("sixth datagram", receiver, &living, "sixth");
        char text[16];
        int got[most_files];
        probe_equal("descriptors with the seventh", 1, receive_files(receiver, text, 15, got));
        probe_equal_text("seventh datagram", "seventh", text);
        expect_text("pipe", "in the pipe", got[0]);
        close_files(1, got);
        expect_nothing("behind the last datagram", receiver);
        PROBE_TRY(send(alive, "later", 5, 0));
        expect("a later datagram", receiver, &living, "later");

        expect("what is left of a pair: one", pair[1], &nobody, "one");
        expect("what is left of a pair: the empty one", pair[1], &nobody, "");
        expect("what is left of a pair: three", pair[1], &nobody, "three");
        expect_nothing("what is left of a pair: behind them", pair[1]);
        probe_equal("sending to a closed end", -1, send(pair[1], "x", 1, MSG_NOSIGNAL));
        probe_equal("error of that", ECONNREFUSED, errno);

        expect("before it was connected", connected, &nobody, "before");
        expect("after it was connected", connected, &peer, "after");
        probe_equal("sending to the connected one", -1,
                    sendto(alive, "x", 1, 0, (const struct sockaddr *)&later.address, later.size));
        probe_equal("error of that", EPERM, errno);
        PROBE_TRY(send(connected, "back", 4, 0));
        expect("answer of the connected one", other, &later, "back");
        expect("before it was shut down", shut, &living, "before that");
        probe_equal("sending to what was shut down", -1,
                    sendto(alive, "x", 1, MSG_NOSIGNAL, (const struct sockaddr *)&quiet.address,
                           quiet.size));
        probe_equal("error of that", EPIPE, errno);
        close_files(6, (int[]){receiver, alive, pair[1], connected, other, shut});
    } while (probe_more());
    return probe_pass();
}
