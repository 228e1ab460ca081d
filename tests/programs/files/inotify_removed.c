// SPDX-License-Identifier: Apache-2.0
// inotify: watches of a file and of a directory that were removed, and that the program has open.
#include "probe.h"

#include <sys/inotify.h>

static void drain(int fd)
{
    char events[4096];
    while (read(fd, events, sizeof events) > 0)
        ;
}

static void expect(int fd, const char *what, int watch, uint32_t mask)
{
    struct inotify_event got = {0};
    probe_equal(what, sizeof got, read(fd, &got, sizeof got));
    probe_equal(what, watch, got.wd);
    probe_equal(what, mask, got.mask);
}

int main(int argc, char **argv)
{
    probe_start(argc, argv);
    const int file = (int)PROBE_TRY(open(probe_path("file"), O_CREAT | O_RDWR, 0600));
    PROBE_TRY(mkdir(probe_path("directory"), 0700));
    const int directory = (int)PROBE_TRY(open(probe_path("directory"), O_RDONLY | O_DIRECTORY));
    const int fd = (int)PROBE_TRY(inotify_init1(IN_NONBLOCK));
    const int other = (int)PROBE_TRY(inotify_add_watch(fd, "/", IN_UNMOUNT));
    const int of_file = (int)PROBE_TRY(inotify_add_watch(fd, probe_path("file"), IN_MODIFY));
    const int of_directory =
        (int)PROBE_TRY(inotify_add_watch(fd, probe_path("directory"), IN_ATTRIB));
    PROBE_TRY(inotify_rm_watch(fd, other));
    PROBE_TRY(unlink(probe_path("file")));
    PROBE_TRY(rmdir(probe_path("directory")));
    drain(fd);
    do {
        probe_ready();
        PROBE_SABOTAGE("file", inotify_rm_watch(fd, of_file); drain(fd));
        PROBE_SABOTAGE("directory", inotify_rm_watch(fd, of_directory); drain(fd));
        PROBE_TRY(write(file, "x", 1));
        expect(fd, "watch of a removed file", of_file, IN_MODIFY);
        PROBE_TRY(fchmod(directory, 0755));
        expect(fd, "watch of a removed directory", of_directory, IN_ATTRIB | IN_ISDIR);
        char none;
        probe_equal("further events", -1, read(fd, &none, sizeof none));
        probe_equal("error of that", EAGAIN, errno);
    } while (probe_more());
    return probe_pass();
}
