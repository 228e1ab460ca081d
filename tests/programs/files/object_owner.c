// SPDX-License-Identifier: Apache-2.0
// The owner, group and mode of pipes and sockets, which say who may open them again
// (/proc/self/fd/N), and whose a socket is.
#include "tcp_pair.h"

enum { pipe_end, pair_end, listening, datagrams, connection, lone, objects };

static int all[objects];

static const mode_t modes[objects] = {
    [pipe_end] = 0640,   [pair_end] = 0600,   [listening] = 0700,
    [datagrams] = 01751, [connection] = 0711, [lone] = 0620,
};

// Another user's, as far as that is allowed.
static void give_away(int fd, int which)
{
    gid_t groups[64];
    const int count = getgroups(64, groups);
    PROBE_TRY(fchmod(fd, modes[which]));
    if (fchown(fd, 12340 + (uid_t)which, 12350 + (gid_t)which) != 0 && count > 0)
        PROBE_TRY(fchown(fd, (uid_t)-1, groups[count - 1]));
}

int main(int argc, char **argv)
{
    probe_start(argc, argv);
    int ends[2], pair[2], single[2], server;
    PROBE_TRY(pipe(ends));
    PROBE_TRY(pipe(single));
    PROBE_TRY(close(single[1]));
    PROBE_TRY(socketpair(AF_UNIX, SOCK_STREAM, 0, pair));
    all[pipe_end] = ends[1];
    all[pair_end] = pair[0];
    all[lone] = single[0];
    all[listening] = (int)PROBE_TRY(socket(AF_INET, SOCK_STREAM, 0));
    PROBE_TRY(listen(all[listening], 1));
    all[datagrams] = (int)PROBE_TRY(socket(AF_INET, SOCK_DGRAM, 0));
    probe_connect_tcp(&all[connection], &server);
    struct stat before[objects], now;
    for (int i = 0; i < objects; i++) {
        give_away(all[i], i);
        PROBE_TRY(fstat(all[i], &before[i]));
    }
    do {
        probe_ready();
        PROBE_SABOTAGE("mode", PROBE_TRY(fchmod(all[pipe_end], 0600)));
        PROBE_SABOTAGE("owner", before[datagrams].st_uid++);
        PROBE_SABOTAGE("group", before[connection].st_gid++);
        for (int i = 0; i < objects; i++) {
            PROBE_TRY(fstat(all[i], &now));
            probe_equal("mode of an object", before[i].st_mode, now.st_mode);
            probe_equal("owner of an object", before[i].st_uid, now.st_uid);
            probe_equal("group of an object", before[i].st_gid, now.st_gid);
        }
        PROBE_TRY(fstat(ends[0], &now));
        probe_equal("mode of a pipe's other end", before[pipe_end].st_mode, now.st_mode);
        char text[8] = "";
        PROBE_TRY(write(ends[1], "pipe", 4));
        probe_equal("bytes through the pipe", 4, read(ends[0], text, 4));
        PROBE_TRY(write(pair[0], "pair", 4));
        probe_equal("bytes through the pair", 4, read(pair[1], text, 4));
        PROBE_TRY(write(all[connection], "tcp", 3));
        probe_equal("bytes over the connection", 3, read(server, text, 3));
    } while (probe_more());
    return probe_pass();
}
