// SPDX-License-Identifier: Apache-2.0
// UNIX sockets whose files were renamed after the bind, as servers do that replace a socket at
// once: they are found under the new name and tell the old one (getsockname).
#include "probe.h"

#include <sys/socket.h>
#include <sys/un.h>

static struct sockaddr_un named(const char *path)
{
    struct sockaddr_un name = {.sun_family = AF_UNIX};
    strcpy(name.sun_path, path);
    return name;
}

// Relative, since sun_path is short and the run's directory may have a long path. Without a new
// name it keeps the old one.
static int bound(const char *old, const char *new, int kind)
{
    const struct sockaddr_un name = named(old);
    int fd = PROBE_TRY(socket(AF_UNIX, kind, 0));
    PROBE_TRY(bind(fd, (const struct sockaddr *)&name, sizeof name));
    PROBE_TRY(chmod(old, 0620));
    if (new != NULL)
        PROBE_TRY(rename(old, new));
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

// Two sockets that were bound to one name: the file of the first had been renamed before.
struct namesakes {
    const char *old;
    int first, second;
    int to_first, to_second; // clients
    int at_first, at_second; // where these are heard
};

static struct namesakes namesakes(const char *old, const char *new, int kind, bool second_is_lower)
{
    struct namesakes two = {.old = old};
    const int low = PROBE_TRY(open("/dev/null", O_RDONLY));
    two.first = bound(old, new, kind);
    two.second = bound(old, NULL, kind);
    int *lower = second_is_lower ? &two.second : &two.first;
    PROBE_TRY(dup2(*lower, low));
    close(*lower);
    *lower = low;
    if (kind == SOCK_STREAM) {
        PROBE_TRY(listen(two.first, 8));
        PROBE_TRY(listen(two.second, 8));
    }
    two.to_first = caller(new, kind);
    two.to_second = caller(old, kind);
    two.at_first = kind == SOCK_STREAM ? PROBE_TRY(accept(two.first, NULL, NULL)) : two.first;
    two.at_second = kind == SOCK_STREAM ? PROBE_TRY(accept(two.second, NULL, NULL)) : two.second;
    return two;
}

static void check_namesakes(const struct namesakes *two)
{
    tells("the old name of the one that was renamed", getsockname, two->first, two->old);
    tells("the name of the other one", getsockname, two->second, two->old);
    tells("the name of a peer that was renamed", getpeername, two->to_first, two->old);
    tells("the name of the peer that has its name", getpeername, two->to_second, two->old);
    sends("to the one that was renamed", two->to_first, two->at_first);
    sends("to the one that has the old name", two->to_second, two->at_second);
}

// Three sockets that have gone round: each is found where the next one was bound.
static const char *const places[3] = {"ring.0", "ring.1", "ring.2"};

struct ring {
    int held[3], callers[3];
};

static struct ring ring(void)
{
    struct ring all;
    for (int i = 0; i < 3; i++)
        all.held[i] = bound(places[i], NULL, SOCK_DGRAM);
    PROBE_TRY(rename(places[2], "ring.free"));
    PROBE_TRY(rename(places[1], places[2]));
    PROBE_TRY(rename(places[0], places[1]));
    PROBE_TRY(rename("ring.free", places[0]));
    for (int i = 0; i < 3; i++)
        all.callers[i] = caller(places[(i + 1) % 3], SOCK_DGRAM);
    return all;
}

static void check_ring(const struct ring *all)
{
    for (int i = 0; i < 3; i++) {
        tells("the old name of one of a ring", getsockname, all->held[i], places[i]);
        tells("the old name of a peer in a ring", getpeername, all->callers[i], places[i]);
        sends("to one of a ring", all->callers[i], all->held[i]);
    }
}

// A socket that sends to TO and one that listens have exchanged their names.
struct exchanged {
    int sender, listener;
};

static struct exchanged exchanged(const char *to)
{
    const struct sockaddr_un name = named(to);
    struct exchanged two;
    two.sender = bound("speaks", "moves", SOCK_DGRAM);
    PROBE_TRY(connect(two.sender, (const struct sockaddr *)&name, sizeof name));
    two.listener = bound("hears", "speaks", SOCK_STREAM);
    PROBE_TRY(rename("moves", "hears"));
    PROBE_TRY(listen(two.listener, 8));
    return two;
}

static void check_exchanged(const struct exchanged *two, int at)
{
    tells("the old name of a sender", getsockname, two->sender, "speaks");
    tells("the old name of who listens at that", getsockname, two->listener, "hears");
    sends("from one that has exchanged its name", two->sender, at);
    int client = caller("speaks", SOCK_STREAM);
    int one = PROBE_TRY(accept(two->listener, NULL, NULL));
    sends("to one that has exchanged its name", client, one);
    close(client);
    close(one);
}

int main(int argc, char **argv)
{
    probe_start(argc, argv);
    PROBE_TRY(chdir(probe_path(".")));
    int listener = bound("stats.tmp", "stats", SOCK_STREAM);
    PROBE_TRY(listen(listener, 8));
    int client = caller("stats", SOCK_STREAM);
    int accepted = PROBE_TRY(accept(listener, NULL, NULL));
    int log = bound("log.tmp", "log", SOCK_DGRAM);
    int sender = caller("log", SOCK_DGRAM);
    const struct namesakes all[] = {
        namesakes("web.tmp", "web", SOCK_STREAM, false),
        namesakes("api.tmp", "api", SOCK_STREAM, true),
        namesakes("news.tmp", "news", SOCK_DGRAM, false),
        namesakes("mail.tmp", "mail", SOCK_DGRAM, true),
    };
    // The first one has left its name to the second one, which has the lower descriptor.
    const int low = PROBE_TRY(open("/dev/null", O_RDONLY));
    int left = bound("left", "moved", SOCK_DGRAM);
    int taker = bound("taker", "left", SOCK_DGRAM);
    PROBE_TRY(dup2(taker, low));
    close(taker);
    taker = low;
    int to_left = caller("moved", SOCK_DGRAM), to_taker = caller("left", SOCK_DGRAM);
    const struct ring gone_round = ring();
    const struct exchanged two = exchanged("log");
    do {
        int waiting = caller("stats", SOCK_STREAM);
        probe_equal("bytes of a datagram that waits", 5, send(sender, "early", 5, 0));
        probe_ready();
        PROBE_SABOTAGE("the new name", rename("stats", "stats.tmp"));
        PROBE_SABOTAGE("the old name of the log", dup2(bound("other.tmp", "log", SOCK_DGRAM), log));
        char got[8] = "";
        PROBE_SABOTAGE("the mode", chmod("stats", 0600));
        PROBE_SABOTAGE("to the one that was renamed",
                       dup2(caller("news.tmp", SOCK_DGRAM), all[2].to_first));
        PROBE_SABOTAGE("to the one that has the old name",
                       dup2(caller("mail", SOCK_DGRAM), all[3].to_second));
        PROBE_SABOTAGE("the old name of a peer in a ring",
                       dup2(caller("ring.0", SOCK_DGRAM), gone_round.callers[0]));
        probe_equal("the new name is there", 0, access("stats", F_OK));
        probe_equal("the old name is not there", -1, access("stats.tmp", F_OK));
        struct stat seen;
        PROBE_TRY(stat("stats", &seen));
        probe_equal("the mode of the file", 0620, seen.st_mode & 07777);
        tells("the old name of the listener", getsockname, listener, "stats.tmp");
        tells("the old name of the log", getsockname, log, "log.tmp");
        tells("the name of who has accepted", getpeername, client, "stats.tmp");
        sends("over the connection", client, accepted);
        int one = PROBE_TRY(accept(listener, NULL, NULL));
        sends("from one that has waited", waiting, one);
        close(waiting);
        close(one);
        int fresh = caller("stats", SOCK_STREAM);
        one = PROBE_TRY(accept(listener, NULL, NULL));
        sends("from one that calls by the new name", fresh, one);
        close(fresh);
        close(one);
        probe_equal("bytes that have waited", 5, recv(log, got, sizeof got, MSG_DONTWAIT));
        sends("to the log", sender, log);
        tells("the old name of the one that has left it", getsockname, left, "left");
        tells("the old name of the one that has taken it", getsockname, taker, "taker");
        sends("to the one that has left its name", to_left, left);
        sends("to the one that has taken it", to_taker, taker);
        for (size_t i = 0; i < sizeof all / sizeof *all; i++)
            check_namesakes(&all[i]);
        check_ring(&gone_round);
        check_exchanged(&two, log);
    } while (probe_more());
    return probe_pass();
}
