// SPDX-License-Identifier: Apache-2.0
// The owner, group and mode of the files of UNIX sockets: of one that listens, one whose file was
// renamed, one whose listener is closed, and one that has sent what waits and is closed.
#include "probe.h"

#include <grp.h>
#include <sys/socket.h>
#include <sys/un.h>

enum { listening, renamed, left, dead, files };

static const struct {
    const char *bound, *name;
    mode_t mode;
} places[files] = {
    [listening] = {"listens", "listens", 0602},
    [renamed] = {"was", "is", 0777},
    [left] = {"left", "left", 0640},
    [dead] = {"dead", "dead", 01211},
};

// Another user's, as far as that is allowed.
static void give_away(const char *name, int which)
{
    gid_t groups[64];
    const int count = getgroups(64, groups);
    if (chown(name, 12340 + (uid_t)which, 12350 + (gid_t)which) != 0 && count > 0)
        PROBE_TRY(chown(name, (uid_t)-1, groups[count - 1]));
}

static struct sockaddr_un named(const char *path)
{
    struct sockaddr_un name = {.sun_family = AF_UNIX};
    strcpy(name.sun_path, path); // relative, since the run's directory may have a long path
    return name;
}

static int bound(int which, int kind)
{
    const struct sockaddr_un name = named(places[which].bound);
    const int fd = (int)PROBE_TRY(socket(AF_UNIX, kind, 0));
    PROBE_TRY(bind(fd, (const struct sockaddr *)&name, sizeof name));
    PROBE_TRY(rename(places[which].bound, places[which].name));
    give_away(places[which].name, which);
    PROBE_TRY(chmod(places[which].name, places[which].mode));
    return fd;
}

static int caller(const char *path, int kind)
{
    const struct sockaddr_un name = named(path);
    const int fd = (int)PROBE_TRY(socket(AF_UNIX, kind, 0));
    PROBE_TRY(connect(fd, (const struct sockaddr *)&name, sizeof name));
    return fd;
}

int main(int argc, char **argv)
{
    probe_start(argc, argv);
    PROBE_TRY(chdir(probe_path(".")));
    struct stat before[files], now;
    const int listener = bound(listening, SOCK_STREAM);
    PROBE_TRY(listen(listener, 4));
    const int receiver = bound(renamed, SOCK_DGRAM);
    const int gone = bound(left, SOCK_STREAM);
    PROBE_TRY(listen(gone, 4));
    const int client = caller("left", SOCK_STREAM);
    const int server = (int)PROBE_TRY(accept(gone, NULL, NULL));
    PROBE_TRY(close(gone));
    const int sender = bound(dead, SOCK_DGRAM);
    const struct sockaddr_un to = named("is");
    PROBE_TRY(sendto(sender, "sent", 4, 0, (const struct sockaddr *)&to, sizeof to));
    PROBE_TRY(close(sender));
    for (int i = 0; i < files; i++)
        PROBE_TRY(stat(places[i].name, &before[i]));
    do {
        probe_ready();
        PROBE_SABOTAGE("mode", PROBE_TRY(chmod("left", 0600)));
        PROBE_SABOTAGE("owner", before[listening].st_uid++);
        PROBE_SABOTAGE("group", before[dead].st_gid++);
        for (int i = 0; i < files; i++) {
            PROBE_TRY(stat(places[i].name, &now));
            probe_equal("mode of a socket's file", before[i].st_mode, now.st_mode);
            probe_equal("owner of a socket's file", before[i].st_uid, now.st_uid);
            probe_equal("group of a socket's file", before[i].st_gid, now.st_gid);
        }
        char text[8] = "";
        if (probe_cycle() == 1) {
            struct sockaddr_un from = named("");
            socklen_t size = sizeof from;
            probe_equal("bytes that wait", 4,
                        recvfrom(receiver, text, 4, 0, (struct sockaddr *)&from, &size));
            probe_equal_text("who has sent them", "dead", from.sun_path);
        }
        PROBE_TRY(write(client, "over", 4));
        probe_equal("bytes over the connection", 4, read(server, text, 4));
        close(caller("listens", SOCK_STREAM));
        close(PROBE_TRY(accept(listener, NULL, NULL)));
    } while (probe_more());
    return probe_pass();
}
