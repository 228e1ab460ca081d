// SPDX-License-Identifier: Apache-2.0
//
// victim FILE [CHILDREN]: counts, and keeps the count in FILE; with CHILDREN, that many more
// processes do so in FILE.1, FILE.2, … Ends by itself when its directory is gone.
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static void count(const char *path)
{
    char text[32];
    int file = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0644);

    for (unsigned long n = 1;; n++) {
        int length = snprintf(text, sizeof(text), "%20lu\n", n);

        /* If a test has made this write fail, the next one writes a newer count. */
        ssize_t written = pwrite(file, text, (size_t)length, 0);
        (void)written;
        if (n % 256 == 0 && access(path, F_OK) != 0)
            exit(0);
        usleep(500);
    }
}

int main(int argc, char **argv)
{
    char path[4096];

    if (argc < 2)
        return 2;
    for (int child = argc > 2 ? atoi(argv[2]) : 0; child > 0; child--) {
        if (fork() == 0) {
            snprintf(path, sizeof(path), "%s.%d", argv[1], child);
            count(path);
        }
    }
    count(argv[1]);
}
