// SPDX-License-Identifier: Apache-2.0
// Sockets to whose files even their owner may not write any more: one that listens, with a client
// that was accepted and one that waits, and one that receives datagrams.
#include "probe.h"

#include <sys/socket.h>
#include <sys/un.h>

enum { FORBIDDEN = 0400 };

static struct sockaddr_un named(const char *path)
{
    struct sockaddr_un name = {.sun_family = AF_UNIX};
    strcpy(name.sun_path, path); // relative, since the run's directory may have a long path
    return name;
}

static int bound(const char *path, int kind)
{
    const struct sockaddr_un name = named(path);
    const int fd = (int)PROBE_TRY(socket(AF_UNIX, kind, 0));
    PROBE_TRY(bind(fd, (const struct sockaddr *)&name, sizeof name));
    return fd;
}

static int caller(const char *path, int kind)
{
    const struct sockaddr_un name = named(path);
    const int fd = (int)PROBE_TRY(socket(AF_UNIX, kind, 0));
    PROBE_TRY(connect(fd, (const struct sockaddr *)&name, sizeof name));
    return fd;
}

static void talk(const char *what, int from, int to)
{
    char got = 0;
    probe_equal(what, 1, send(from, "x", 1, MSG_NOSIGNAL | MSG_DONTWAIT));
    probe_equal(what, 1, recv(to, &got, 1, MSG_DONTWAIT));
    probe_equal(what, 'x', got);
}

static void same_mode(const char *path)
{
    struct stat now;
    PROBE_TRY(stat(path, &now));
    probe_equal("mode of a file", FORBIDDEN, now.st_mode & 07777);
}

int main(int argc, char **argv)
{
    probe_start(argc, argv);
    PROBE_TRY(chdir(probe_path(".")));
    const int listener = bound("listens", SOCK_STREAM);
    PROBE_TRY(listen(listener, 4));
    const int client = caller("listens", SOCK_STREAM);
    const int server = (int)PROBE_TRY(accept(listener, NULL, NULL));
    const int waiting = caller("listens", SOCK_STREAM);
    const int receiver = bound("receives", SOCK_DGRAM);
    const int sender = caller("receives", SOCK_DGRAM);
    PROBE_TRY(chmod("listens", FORBIDDEN));
    PROBE_TRY(chmod("receives", FORBIDDEN));
    do {
        probe_ready();
        PROBE_SABOTAGE("mode", chmod("receives", 0600));
        PROBE_SABOTAGE("sender", shutdown(sender, SHUT_WR));
        same_mode("listens");
        same_mode("receives");
        talk("message of the client", client, server);
        talk("datagram of the sender", sender, receiver);
        struct sockaddr_un peer = {0};
        socklen_t size = sizeof peer;
        PROBE_TRY(getpeername(client, (struct sockaddr *)&peer, &size));
        probe_equal_text("name of the client's peer", "listens", peer.sun_path);
    } while (probe_more());
    const int last = (int)PROBE_TRY(accept(listener, NULL, NULL));
    talk("message of the one that waited", waiting, last);
    return probe_pass();
}
