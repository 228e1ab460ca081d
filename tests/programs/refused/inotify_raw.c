// SPDX-License-Identifier: Apache-2.0
// An inotify watch made by the raw system call, so that Cryo has not seen its path.
#include "probe.h"

#include <sys/inotify.h>

int main(int argc, char **argv)
{
    probe_start(argc, argv);
    int fd = PROBE_TRY(syscall(SYS_inotify_init1, IN_NONBLOCK));
    int file = PROBE_TRY(open(probe_path("file"), O_CREAT | O_RDWR, 0600));
    int watch = PROBE_TRY(syscall(SYS_inotify_add_watch, fd, probe_path("file"), IN_MODIFY));
    do {
        struct inotify_event event = {0};
        probe_ready();
        PROBE_SABOTAGE("watch", inotify_rm_watch(fd, watch); read(fd, &event, sizeof event);
                       event.wd = 0);
        PROBE_TRY(write(file, "x", 1));
        probe_equal("size of the watch's event", sizeof event, read(fd, &event, sizeof event));
        probe_equal("watch of the event", watch, event.wd);
    } while (probe_more());
    return probe_pass();
}
