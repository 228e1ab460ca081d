/* SPDX-License-Identifier: Apache-2.0 */
/* A slow disk: fsync(2) makes the file SLOW_SYNC.begun, and waits until SLOW_SYNC.done exists. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

static void wait_for_disk(void)
{
    const struct timespec moment = {0, 2000000};
    const char *place = getenv("SLOW_SYNC");
    char name[4096];
    if (place == NULL)
        return;
    snprintf(name, sizeof(name), "%s.begun", place);
    const int fd = open(name, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    if (fd < 0)
        abort();
    close(fd);
    snprintf(name, sizeof(name), "%s.done", place);
    while (access(name, F_OK) != 0)
        nanosleep(&moment, NULL);
}

#define SLOW(name)                                                                                 \
    int name(int fd)                                                                               \
    {                                                                                              \
        int (*next)(int);                                                                          \
        wait_for_disk();                                                                           \
        *(void **)&next = dlsym(RTLD_NEXT, #name);                                                 \
        return next(fd);                                                                           \
    }

SLOW(fsync)
SLOW(fdatasync)
