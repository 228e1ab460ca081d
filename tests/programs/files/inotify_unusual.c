// SPDX-License-Identifier: Apache-2.0
// inotify: a watch of a symbolic link itself, also where it leads nowhere, and one that was added
// for nothing that happens to a file and so reports its own end only.
#include "probe.h"

#include <sys/inotify.h>

static void expect(int fd, const char *what, int watch, uint32_t mask)
{
    struct inotify_event got;
    probe_equal(what, sizeof got, read(fd, &got, sizeof got));
    probe_equal(what, watch, got.wd);
    probe_equal(what, mask, got.mask);
}

static void move(const char *from, const char *to)
{
    char old[4096], new[4096];
    snprintf(old, sizeof old, "%s", probe_path(from));
    snprintf(new, sizeof new, "%s", probe_path(to));
    PROBE_TRY(rename(old, new));
}

int main(int argc, char **argv)
{
    probe_start(argc, argv);
    const int file = PROBE_TRY(open(probe_path("file"), O_CREAT | O_RDWR, 0600));
    PROBE_TRY(symlink("file", probe_path("link")));
    PROBE_TRY(symlink("nowhere", probe_path("dangling")));
    const int fd = PROBE_TRY(inotify_init1(IN_NONBLOCK));
    const uint32_t itself = IN_MOVE_SELF | IN_DONT_FOLLOW;
    const int link = PROBE_TRY(inotify_add_watch(fd, probe_path("link"), itself));
    const int dangling = PROBE_TRY(inotify_add_watch(fd, probe_path("dangling"), itself));
    int quiet = PROBE_TRY(inotify_add_watch(fd, probe_path("file"), IN_ISDIR));
    do {
        probe_ready();
        PROBE_SABOTAGE("link", inotify_add_watch(fd, probe_path("link"), IN_OPEN | IN_DONT_FOLLOW));
        PROBE_TRY(write(file, "x", 1));
        move("link", "moved");
        move("moved", "link");
        expect(fd, "watch of the link", link, IN_MOVE_SELF);
        move("dangling", "moved");
        move("moved", "dangling");
        expect(fd, "watch of the link that leads nowhere", dangling, IN_MOVE_SELF);
        PROBE_TRY(inotify_rm_watch(fd, quiet));
        expect(fd, "end of the quiet watch", quiet, IN_IGNORED);
        quiet = PROBE_TRY(inotify_add_watch(fd, probe_path("file"), IN_ISDIR));
    } while (probe_more());
    return probe_pass();
}
