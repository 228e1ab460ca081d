// SPDX-License-Identifier: Apache-2.0
// read(2) of an eventfd, a timerfd, a signalfd, an inotify descriptor and a terminal.
#include "probe.h"

#include <sys/eventfd.h>
#include <sys/inotify.h>
#include <sys/signalfd.h>
#include <sys/timerfd.h>
#include <termios.h>

enum { COUNT = 5 };

static int fds[COUNT];

static long call(void *fd)
{
    char room[4096];
    return read(*(int *)fd, room, sizeof room) > 0;
}

int main(int argc, char **argv)
{
    probe_start(argc, argv);
    const char *names[COUNT] = {"eventfd", "timerfd", "signalfd", "inotify", "terminal"};
    sigset_t usr1;
    sigemptyset(&usr1);
    sigaddset(&usr1, SIGUSR1);
    PROBE_ZERO(pthread_sigmask(SIG_BLOCK, &usr1, NULL));
    int master = PROBE_TRY(posix_openpt(O_RDWR | O_NOCTTY));
    PROBE_TRY(grantpt(master));
    PROBE_TRY(unlockpt(master));
    int file = PROBE_TRY(open(probe_path("file"), O_CREAT | O_RDWR, 0600));
    fds[0] = PROBE_TRY(eventfd(0, 0));
    fds[1] = PROBE_TRY(timerfd_create(CLOCK_MONOTONIC, 0));
    fds[2] = PROBE_TRY(signalfd(-1, &usr1, 0));
    fds[3] = PROBE_TRY(inotify_init1(0));
    fds[4] = PROBE_TRY(open(ptsname(master), O_RDWR | O_NOCTTY));
    PROBE_TRY(inotify_add_watch(fds[3], probe_path("file"), IN_MODIFY));
    const struct itimerspec day = {.it_value.tv_sec = 86400}, now = {.it_value.tv_nsec = 1};
    do {
        struct probe_sleeper sleepers[COUNT];
        PROBE_TRY(timerfd_settime(fds[1], 0, &day, NULL));
        for (int i = 0; i < COUNT; i++) {
            probe_sleep_in(&sleepers[i], SYS_read, call, &fds[i]);
        }
        probe_ready();
        PROBE_SABOTAGE("inotify", write(file, "x", 1); probe_await("end", &sleepers[3].done));
        for (int i = 0; i < COUNT; i++) {
            probe_still_asleep(names[i], &sleepers[i]);
        }
        PROBE_TRY(eventfd_write(fds[0], 1));
        PROBE_TRY(timerfd_settime(fds[1], 0, &now, NULL));
        // To the thread, since a signal to the process might wait for its main thread only.
        PROBE_ZERO(pthread_kill(sleepers[2].thread, SIGUSR1));
        PROBE_TRY(write(file, "x", 1));
        PROBE_TRY(write(master, "line\n", 5));
        for (int i = 0; i < COUNT; i++) {
            probe_woken(names[i], &sleepers[i], 1, 0);
        }
    } while (probe_more());
    return probe_pass();
}
