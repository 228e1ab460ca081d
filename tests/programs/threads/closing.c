// SPDX-License-Identifier: Apache-2.0
// A thread that closes numbers at random, whatever is there, and puts a file of its own at some of
// them, while the program is saved: it has what it has opened, and nothing closes that for it.
#include "probe.h"

#include <sys/resource.h>

enum { FIRST = 3, LOW_END = 19, USUAL_END = 1024, OWN = 700 };

static volatile int goes_on, runs;
static int end = USUAL_END;

static void *close_numbers(void *unused)
{
    (void)unused;
    unsigned random = (unsigned)probe_seed();
    while (goes_on) {
        random = random * 1664525u + 1013904223u;
        const int stop = (random >> 29) % 2 == 0 ? LOW_END : end; // low: the kernel gives these
        const int fd = FIRST + (int)(random >> 12 & 0xffff) % (stop - FIRST);
        const bool uses_it = (random >> 8) % 16 == 0;
        if (fd == OWN) {
            continue;
        }
        if (!uses_it) {
            (void)close(fd);
        } else if (dup2(OWN, fd) == fd) {
            probe_equal("closing a number that was used", 0, close(fd));
        } else {
            probe_equal("why a number cannot be used", EBUSY, errno);
        }
        runs = 1;
    }
    return NULL;
}

// Without a descriptor, which the thread would close.
static void await_check(void)
{
    char name[20];
    snprintf(name, sizeof name, "check.%u", probe_cycle());
    const char *path = probe_path(name);
    while (access(path, F_OK) != 0) {
        nanosleep(&(struct timespec){.tv_nsec = 1000 * 1000}, NULL);
    }
}

int main(int argc, char **argv)
{
    probe_start(argc, argv);
    struct rlimit limit;
    PROBE_TRY(getrlimit(RLIMIT_NOFILE, &limit));
    if (limit.rlim_cur < USUAL_END) {
        end = (int)limit.rlim_cur;
    }
    const int file = PROBE_TRY(open(probe_path("file"), O_CREAT | O_RDWR, 0600));
    PROBE_TRY(dup2(file, OWN));
    PROBE_TRY(close(file));
    do {
        pthread_t thread;
        goes_on = 1;
        runs = 0;
        PROBE_TRY(lseek(OWN, probe_cycle(), SEEK_SET));
        probe_announce();
        PROBE_ZERO(pthread_create(&thread, NULL, close_numbers, NULL));
        probe_await("the thread that closes numbers", &runs);
        await_check();
        goes_on = 0;
        PROBE_ZERO(pthread_join(thread, NULL));
        probe_await_check();
        PROBE_SABOTAGE("own", lseek(OWN, 0, SEEK_SET));
        probe_equal("offset of its own file", probe_cycle(), lseek(OWN, 0, SEEK_CUR));
    } while (probe_more());
    return probe_pass();
}
