/* SPDX-License-Identifier: Apache-2.0 */
/* Adds a byte to the file COUNT_SYNCS for each call that waits for a disk. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

static void count(void)
{
    const char *name = getenv("COUNT_SYNCS");
    const int fd = name != NULL ? open(name, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600) : -1;
    if (fd < 0 || write(fd, "x", 1) != 1)
        abort();
    close(fd);
}

#define COUNTED(name)                                                                              \
    int name(int fd)                                                                               \
    {                                                                                              \
        int (*next)(int);                                                                          \
        count();                                                                                   \
        *(void **)&next = dlsym(RTLD_NEXT, #name);                                                 \
        return next(fd);                                                                           \
    }

COUNTED(fsync)
COUNTED(fdatasync)
COUNTED(syncfs)
