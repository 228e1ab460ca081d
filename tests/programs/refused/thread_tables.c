// SPDX-License-Identifier: Apache-2.0
// A thread that does not share the process's descriptors or, with DIRECTORY, its working directory.
#include "probe.h"

#include <sched.h>

static volatile int apart, asked, answer;

static void *leave(void *unused)
{
    (void)unused;
#ifdef DIRECTORY
    PROBE_TRY(unshare(CLONE_FS));
    PROBE_TRY(chdir("/usr"));
#else
    enum { OWN = 77 };
    PROBE_TRY(unshare(CLONE_FILES));
    PROBE_TRY(dup2(PROBE_TRY(open("/usr", O_RDONLY)), OWN));
#endif
    apart = 1;
    for (;;) {
        while (!asked) {
            usleep(1000);
        }
        asked = 0;
#ifdef DIRECTORY
        struct stat here, there;
        answer = stat(".", &here) == 0 && stat("/usr", &there) == 0 && here.st_ino == there.st_ino
                     ? 1
                     : 2;
#else
        answer = fcntl(OWN, F_GETFD) >= 0 ? 1 : 2;
#endif
    }
    return NULL;
}

int main(int argc, char **argv)
{
    probe_start(argc, argv);
    pthread_t thread;
    PROBE_ZERO(pthread_create(&thread, NULL, leave, NULL));
    probe_await("the thread", &apart);
    do {
        probe_ready();
        answer = 0;
        asked = 1;
        probe_await("the answer", &answer);
        PROBE_SABOTAGE("own table", answer = 2);
        probe_equal("own table of the thread", 1, answer);
    } while (probe_more());
    return probe_pass();
}
