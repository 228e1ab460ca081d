// SPDX-License-Identifier: Apache-2.0
// Connections by name within a tree: abstract and as files, with and without an open listener, from
// callers with a name of their own, as packets and as datagrams, half closed, and with data in
// flight in both directions.
#include "probe.h"

#include <stddef.h>
#include <sys/socket.h>
#include <sys/un.h>

struct name {
    struct sockaddr_un address;
    socklen_t size;
};

struct ends {
    int accepted, caller;
};

static struct ends kept, alone, packets, datagrams;
static int listener;

static struct name file_name(const char *path)
{
    struct name name = {.address = {.sun_family = AF_UNIX}};
    snprintf(name.address.sun_path, sizeof name.address.sun_path, "%s", path);
    name.size = sizeof(name.address);
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

static struct name none(void)
{
    return (struct name){.address = {.sun_family = AF_UNIX}, .size = sizeof(sa_family_t)};
}

static int bound(int kind, const struct name *name)
{
    const int fd = PROBE_TRY(socket(AF_UNIX, kind, 0));
    if (name->size > sizeof(sa_family_t))
        PROBE_TRY(bind(fd, (const struct sockaddr *)&name->address, name->size));
    return fd;
}

static struct ends connected(int at, int kind, const struct name *to, const struct name *from)
{
    struct ends ends = {.caller = bound(kind, from)};
    PROBE_TRY(connect(ends.caller, (const struct sockaddr *)&to->address, to->size));
    ends.accepted = PROBE_TRY(accept(at, NULL, NULL));
    return ends;
}

static void check_name(const char *what, int (*ask)(int, struct sockaddr *, socklen_t *), int fd,
                       const struct name *expected)
{
    struct name found = {.size = sizeof(found.address)};
    PROBE_TRY(ask(fd, (struct sockaddr *)&found.address, &found.size));
    const size_t head = offsetof(struct sockaddr_un, sun_path);
    const bool is_file = expected->size > head && expected->address.sun_path[0] != 0;
    if (is_file) {
        probe_equal_text(what, expected->address.sun_path, found.address.sun_path);
        return;
    }
    probe_equal(what, expected->size, found.size);
    probe_equal_bytes(what, &expected->address, &found.address, expected->size);
}

static void check_names(const char *what, const struct ends *ends, const struct name *to,
                        const struct name *from)
{
    char text[64];
    snprintf(text, sizeof text, "%s: name of the end that accepted", what);
    check_name(text, getsockname, ends->accepted, to);
    snprintf(text, sizeof text, "%s: its peer", what);
    check_name(text, getpeername, ends->accepted, from);
    snprintf(text, sizeof text, "%s: name of the caller", what);
    check_name(text, getsockname, ends->caller, from);
    snprintf(text, sizeof text, "%s: its peer", what);
    check_name(text, getpeername, ends->caller, to);
}

static void check_text(const char *what, int fd, const char *expected)
{
    char got[32] = "";
    const ssize_t size = recv(fd, got, sizeof got - 1, MSG_DONTWAIT);
    probe_equal(what, (long long)strlen(expected), size);
    probe_equal_text(what, expected, got);
}

static void check_user(int fd)
{
    struct ucred peer = {0};
    socklen_t size = sizeof peer;
    PROBE_TRY(getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size));
    probe_equal("user at the other end", getuid(), peer.uid);
}

int main(int argc, char **argv)
{
    probe_start(argc, argv);
    PROBE_TRY(chdir(probe_path(".")));
    do {
        const struct name file = file_name("names.kept"), gone = file_name("names.gone");
        const struct name abstract = abstract_name("at"), caller = abstract_name("from");
        const struct name one = abstract_name("one"), two = abstract_name("two");
        const struct name nobody = none();
        unlink("names.kept");
        unlink("names.gone");

        listener = bound(SOCK_STREAM, &file);
        PROBE_TRY(listen(listener, 3));
        kept = connected(listener, SOCK_STREAM, &file, &nobody);
        PROBE_TRY(send(kept.caller, "to the server", 13, 0));
        PROBE_TRY(send(kept.accepted, "back", 4, 0));
        PROBE_TRY(shutdown(kept.caller, SHUT_WR));

        int at = bound(SOCK_STREAM, &gone);
        PROBE_TRY(listen(at, 1));
        alone = connected(at, SOCK_STREAM, &gone, &nobody);
        PROBE_TRY(close(at));
        PROBE_TRY(unlink("names.gone"));
        PROBE_TRY(send(alone.caller, "alone", 5, 0));

        at = bound(SOCK_SEQPACKET, &abstract);
        PROBE_TRY(listen(at, 1));
        packets = connected(at, SOCK_SEQPACKET, &abstract, &caller);
        PROBE_TRY(close(at));
        PROBE_TRY(send(packets.accepted, "first", 5, 0));
        PROBE_TRY(send(packets.accepted, "second", 6, 0));

        datagrams = (struct ends){bound(SOCK_DGRAM, &one), bound(SOCK_DGRAM, &two)};
        PROBE_TRY(connect(datagrams.accepted, (const struct sockaddr *)&two.address, two.size));
        PROBE_TRY(connect(datagrams.caller, (const struct sockaddr *)&one.address, one.size));
        PROBE_TRY(send(datagrams.caller, "one", 3, 0));
        PROBE_TRY(send(datagrams.caller, "more", 4, 0));

        probe_ready();
        PROBE_SABOTAGE("alone", send(alone.caller, "!", 1, 0));
        check_names("kept listener", &kept, &file, &nobody);
        check_names("no listener", &alone, &gone, &nobody);
        check_names("packets", &packets, &abstract, &caller);
        check_names("datagrams", &datagrams, &one, &two);
        check_text("what was sent to the server", kept.accepted, "to the server");
        probe_equal("the end behind it", 0, recv(kept.accepted, &(char){0}, 1, MSG_DONTWAIT));
        check_text("what was sent back", kept.caller, "back");
        check_text("what was sent alone", alone.accepted, "alone");
        check_text("the first packet", packets.caller, "first");
        check_text("the second packet", packets.caller, "second");
        check_text("the first datagram", datagrams.accepted, "one");
        check_text("the second datagram", datagrams.accepted, "more");
        check_user(kept.accepted);
        check_user(packets.caller);
        probe_equal("whether the old name is back", -1, access("names.gone", F_OK));
        const struct ends later = connected(listener, SOCK_STREAM, &file, &nobody);
        PROBE_TRY(send(later.caller, "later", 5, 0));
        check_text("a later connection", later.accepted, "later");
        const struct ends all[] = {kept, alone, packets, datagrams, later};
        for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
            close(all[i].accepted);
            close(all[i].caller);
        }
        close(listener);
    } while (probe_more());
    return probe_pass();
}
