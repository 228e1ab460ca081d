// SPDX-License-Identifier: Apache-2.0
// inotify: watches keep their numbers, even high ones, and report later events. Watches of
// directories that are gone cost no memory.
#include "probe.h"

#include <sys/inotify.h>

static void expect(int fd, const char *what, int watch, uint32_t mask)
{
    union {
        struct inotify_event event;
        char room[4096];
    } got;
    probe_true(what, read(fd, &got, sizeof got) >= (ssize_t)sizeof got.event);
    probe_equal(what, watch, got.event.wd);
    probe_equal(what, mask, got.event.mask);
}

static long data_kilobytes(void)
{
    const char *line = strstr(probe_read_text("/proc/self/status"), "VmData:");
    return strtol(line + strlen("VmData:"), NULL, 10);
}

static void watch_what_does_not_stay(void)
{
    enum { MANY = 10000 };
    const int fd = PROBE_TRY(inotify_init1(IN_NONBLOCK));
    const char *directory = probe_path("");
    const long before = data_kilobytes();
    for (unsigned i = 0; i < MANY; i++) {
        char name[4096];
        snprintf(name, sizeof name, "%spassing.%u", directory, i);
        PROBE_TRY(mkdir(name, 0700));
        PROBE_TRY(inotify_rm_watch(fd, PROBE_TRY(inotify_add_watch(fd, name, IN_CREATE))));
        PROBE_TRY(rmdir(name));
    }
    probe_within("kilobytes for watches that are gone", -512, 512, data_kilobytes() - before);
    PROBE_TRY(close(fd));
}

int main(int argc, char **argv)
{
    probe_start(argc, argv);
    watch_what_does_not_stay();
    int fd = PROBE_TRY(inotify_init1(IN_NONBLOCK));
    PROBE_TRY(mkdir(probe_path("watched"), 0700));
    PROBE_TRY(mkdir(probe_path("last"), 0700));
    int file = PROBE_TRY(open(probe_path("file"), O_CREAT | O_RDWR, 0600));
    int gone = PROBE_TRY(inotify_add_watch(fd, "/", IN_DELETE_SELF));
    int by_directory = PROBE_TRY(inotify_add_watch(fd, probe_path("watched"), IN_CREATE));
    int by_file = PROBE_TRY(inotify_add_watch(fd, probe_path("file"), IN_MODIFY));
    PROBE_TRY(inotify_rm_watch(fd, gone));
    enum { MORE = 20 };
    for (unsigned i = 0; i < MORE; i++) {
        char name[16];
        snprintf(name, sizeof name, "more.%u", i);
        PROBE_TRY(mkdir(probe_path(name), 0700));
        PROBE_TRY(inotify_add_watch(fd, probe_path(name), IN_CREATE));
    }
    const int last = PROBE_TRY(inotify_add_watch(fd, probe_path("last"), IN_CREATE));
    char removed[4096];
    PROBE_TRY(read(fd, removed, sizeof removed)); // IN_IGNORED of the removed one
    do {
        probe_ready();
        PROBE_SABOTAGE("watch", inotify_rm_watch(fd, by_file));
        PROBE_TRY(write(file, "x", 1));
        expect(fd, "watch of the file", by_file, IN_MODIFY);
        PROBE_TRY(close(PROBE_TRY(open(probe_path("watched/new"), O_CREAT | O_WRONLY, 0600))));
        expect(fd, "watch of the directory", by_directory, IN_CREATE);
        PROBE_TRY(unlink(probe_path("watched/new")));
        PROBE_TRY(close(PROBE_TRY(open(probe_path("last/new"), O_CREAT | O_WRONLY, 0600))));
        expect(fd, "watch that was made last", last, IN_CREATE);
        PROBE_TRY(unlink(probe_path("last/new")));
    } while (probe_more());
    return probe_pass();
}
