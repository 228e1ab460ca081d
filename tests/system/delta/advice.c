/* SPDX-License-Identifier: Apache-2.0 */
/* Gives the kernel advice about its memory now and then, and checks that the kernel still has
 * it.
 *
 *     advice libc | number
 *
 * By madvise(), or by syscall(). Each line of standard input is answered with the number of checks
 * so far; end of file ends the program, with 1 as soon as the kernel has other advice.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { page = 4096, size = 48 << 20 };

static unsigned char *memory;
static int by_number;
static atomic_long looks;

static void need(int good, const char *what)
{
    if (good)
        return;
    perror(what);
    exit(1);
}

/* Whether the mapping is left out of core files. */
static int left_out(void)
{
    static char line[65536];
    int found = 0, inside = 0;
    FILE *smaps = fopen("/proc/self/smaps", "r");
    need(smaps != NULL, "smaps");
    while (fgets(line, sizeof line, smaps) != NULL) {
        unsigned long start, end;
        if (sscanf(line, "%lx-%lx ", &start, &end) == 2)
            inside = start == (uintptr_t)memory;
        if (inside && strncmp(line, "VmFlags:", 8) == 0)
            found = strstr(line, " dd") != NULL;
    }
    fclose(smaps);
    return found;
}

/* A program saved while it reads smaps in several calls continues at the same byte of the restored
 * process's smaps, which is another line: one check may therefore fail, but not two. */
static void check(int expected)
{
    if (left_out() != expected && left_out() != expected) {
        fprintf(stderr, "the mapping is %s out of core files, and should %sbe\n",
                expected ? "not left" : "left", expected ? "" : "not ");
        _exit(1);
    }
    atomic_fetch_add(&looks, 1);
}

static void *advise(void *unused)
{
    unsigned seed = 1;
    for (int out = 1;; out = !out) {
        const int advice = out ? MADV_DONTDUMP : MADV_DODUMP;
        need((by_number ? (int)syscall(SYS_madvise, memory, (size_t)size, advice)
                        : madvise(memory, size, advice)) == 0,
             "madvise");
        check(out);
        const struct timespec pause = {0, rand_r(&seed) % 30000000};
        nanosleep(&pause, NULL);
        check(out);
    }
    return unused;
}

int main(int argc, char **argv)
{
    if (argc != 2)
        return 2;
    by_number = strcmp(argv[1], "number") == 0;
    /* Between inaccessible pages: advice does not change where the mapping begins and ends.
     */
    unsigned char *room =
        mmap(NULL, size + 2 * page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    need(room != MAP_FAILED, "mmap");
    memory = room + page;
    need(mprotect(memory, size, PROT_READ | PROT_WRITE) == 0, "mprotect");
    memset(memory, 1, size);
    pthread_t thread;
    need(pthread_create(&thread, NULL, advise, NULL) == 0, "a thread");
    char line[16];
    while (fgets(line, sizeof line, stdin) != NULL) {
        printf("%ld\n", atomic_load(&looks));
        fflush(stdout);
    }
    return 0;
}
