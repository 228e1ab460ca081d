// SPDX-License-Identifier: Apache-2.0
// UNIX sockets whose files were removed after the bind: they tell their names, also where something
// else is there now, or not even the directory, and what was connected to them still is.
#include "probe.h"

#include <sys/socket.h>
#include <sys/un.h>

static struct sockaddr_un named(const char *path)
{
    struct sockaddr_un name = {.sun_family = AF_UNIX};
    strcpy(name.sun_path, path);
    return name;
}

static int bound(const char *path, int kind)
{
    const struct sockaddr_un name = named(path);
    int fd = PROBE_TRY(socket(AF_UNIX, kind, 0));
    PROBE_TRY(bind(fd, (const struct sockaddr *)&name, sizeof name));
    return fd;
}

static int caller(const char *path, int kind)
{
    const struct sockaddr_un name = named(path);
    int fd = PROBE_TRY(socket(AF_UNIX, kind, 0));
    PROBE_TRY(connect(fd, (const struct sockaddr *)&name, sizeof name));
    return fd;
}

typedef int ask_name(int, struct sockaddr *restrict, socklen_t *restrict);

static void tells(const char *what, ask_name *ask, int fd, const char *path)
{
    struct sockaddr_un name = named("");
    socklen_t size = sizeof name;
    PROBE_TRY(ask(fd, (struct sockaddr *)&name, &size));
    probe_equal_text(what, path, name.sun_path);
}

static void sends(const char *what, int from, int to)
{
    char got[8] = "";
    probe_equal(what, 5, send(from, "hello", 5, 0));
    probe_equal(what, 5, recv(to, got, sizeof got, MSG_DONTWAIT));
    probe_equal_text(what, "hello", got);
}

// A file of another kind, the socket of another one, or nothing, may be at the old place.
static void is_there(const char *path, mode_t kind)
{
    struct stat status;
    const bool found = lstat(path, &status) == 0;
    probe_equal(path, kind, found ? status.st_mode & S_IFMT : 0);
}

int main(int argc, char **argv)
{
    probe_start(argc, argv);
    mkdir("gone", 0755);
    const int mailbox = bound("gone/mailbox", SOCK_DGRAM);
    const int writer = caller("gone/mailbox", SOCK_DGRAM);
    PROBE_TRY(unlink("gone/mailbox"));
    PROBE_TRY(rmdir("gone"));
    const int listener = bound("listener", SOCK_STREAM);
    PROBE_TRY(listen(listener, 4));
    const int called = caller("listener", SOCK_STREAM);
    const int accepted = PROBE_TRY(accept(listener, NULL, NULL));
    PROBE_TRY(unlink("listener"));
    const int next = bound("listener", SOCK_STREAM); // in its place
    PROBE_TRY(listen(next, 4));
    const int packets = bound("packets", SOCK_SEQPACKET);
    PROBE_TRY(listen(packets, 4));
    const int waits = caller("packets", SOCK_SEQPACKET); // nobody has accepted it yet
    PROBE_TRY(unlink("packets"));
    const int alone = bound("alone", SOCK_DGRAM);
    PROBE_TRY(unlink("alone"));
    PROBE_TRY(mkfifo("alone", 0600));
    do {
        probe_equal("a letter", 5, send(writer, "early", 5, 0));
        probe_ready();
        PROBE_SABOTAGE("mailbox", shutdown(writer, SHUT_WR));
        PROBE_SABOTAGE("listener", unlink("listener"));
        char letter[8] = "";
        probe_equal("the letter in the mailbox", 5, recv(mailbox, letter, 8, MSG_DONTWAIT));
        probe_equal_text("the letter in the mailbox", "early", letter);
        tells("the name of the mailbox", getsockname, mailbox, "gone/mailbox");
        tells("the name of the writer's peer", getpeername, writer, "gone/mailbox");
        sends("to the mailbox", writer, mailbox);
        tells("the name of the listener", getsockname, listener, "listener");
        sends("to what the listener has accepted", called, accepted);
        tells("the name of the one in its place", getsockname, next, "listener");
        tells("the name of the one that is alone", getsockname, alone, "alone");
        is_there("gone", 0);
        is_there("listener", S_IFSOCK);
        is_there("packets", 0);
        is_there("alone", S_IFIFO);
        const int fresh = caller("listener", SOCK_STREAM);
        const int heard = PROBE_TRY(accept(next, NULL, NULL));
        sends("to the one in its place", fresh, heard);
        close(fresh);
        close(heard);
    } while (probe_more());
    const int last = PROBE_TRY(accept(packets, NULL, NULL));
    sends("to the one that has waited", waits, last);
    return probe_pass();
}
