// SPDX-License-Identifier: Apache-2.0
// A library with a constructor that leaves external traces: see constructors.c.
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

int constructed;

__attribute__((constructor)) static void construct(int argc, char **argv)
{
    constructed++;
    for (int i = 1; i + 1 < argc; i++) {
        if (strcmp(argv[i], "--dir") == 0) {
            char path[4096];
            snprintf(path, sizeof path, "%s/constructed", argv[i + 1]);
            const int fd = open(path, O_CREAT | O_WRONLY | O_APPEND, 0600);
            if (write(fd, "x", 1) != 1) {
                constructed = -1;
            }
            close(fd);
        }
    }
}
