// SPDX-License-Identifier: Apache-2.0
// Waiting for a flock and for an OFD lock that another open of the file holds.
#include "probe.h"

#include <sys/file.h>

static int mine[2], held[2];
static struct flock whole = {.l_type = F_WRLCK, .l_whence = SEEK_SET};

static long call_flock(void *unused)
{
    (void)unused;
    return flock(mine[0], LOCK_EX);
}

static long call_ofd(void *unused)
{
    (void)unused;
    struct flock lock = whole;
    return fcntl(mine[1], F_OFD_SETLKW, &lock);
}

int main(int argc, char **argv)
{
    probe_start(argc, argv);
    for (int i = 0; i < 2; i++) {
        const char *path = probe_path(i == 0 ? "flock" : "ofd");
        mine[i] = PROBE_TRY(open(path, O_CREAT | O_RDWR, 0600));
        held[i] = PROBE_TRY(open(path, O_RDWR));
    }
    struct flock none = {.l_type = F_UNLCK, .l_whence = SEEK_SET};
    do {
        struct probe_sleeper sleepers[2];
        PROBE_TRY(flock(held[0], LOCK_EX));
        PROBE_TRY(fcntl(held[1], F_OFD_SETLK, &whole));
        probe_sleep_in(&sleepers[0], SYS_flock, call_flock, NULL);
        probe_sleep_in(&sleepers[1], SYS_fcntl, call_ofd, NULL);
        probe_ready();
        PROBE_SABOTAGE("flock", flock(held[0], LOCK_UN); probe_await("end", &sleepers[0].done));
        probe_still_asleep("flock", &sleepers[0]);
        probe_still_asleep("OFD lock", &sleepers[1]);
        PROBE_TRY(flock(held[0], LOCK_UN));
        PROBE_TRY(fcntl(held[1], F_OFD_SETLK, &none));
        probe_woken("flock", &sleepers[0], 0, 0);
        probe_woken("OFD lock", &sleepers[1], 0, 0);
        PROBE_TRY(flock(mine[0], LOCK_UN));
        PROBE_TRY(fcntl(mine[1], F_OFD_SETLK, &none));
    } while (probe_more());
    return probe_pass();
}
