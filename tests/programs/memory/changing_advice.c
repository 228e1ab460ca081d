// SPDX-License-Identifier: Apache-2.0
// Advice that makes a forked copy incomplete changes all the time, even while a checkpoint begins:
// whatever was read of it before the stop, contents are saved.
#include "probe.h"

enum { SIZE = 24 * 1024 * 1024 };

static unsigned char *wiped, *left_out, *locked;
static volatile int stop, changes;

static void *change(void *unused)
{
    while (!stop) {
        PROBE_TRY(madvise(wiped, SIZE, changes % 2 ? MADV_KEEPONFORK : MADV_WIPEONFORK));
        PROBE_TRY(madvise(left_out, SIZE, changes / 2 % 2 ? MADV_DOFORK : MADV_DONTFORK));
        if (changes / 4 % 2)
            PROBE_TRY(munlock(locked, 4096));
        else
            PROBE_TRY(mlock(locked, 4096));
        changes++;
    }
    return unused;
}

// Between inaccessible pages, so that no advice changes where the mapping begins and ends.
static unsigned char *alone(size_t size)
{
    unsigned char *room =
        PROBE_MAP(mmap(NULL, size + 8192, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    PROBE_TRY(mprotect(room + 4096, size, PROT_READ | PROT_WRITE));
    return room + 4096;
}

int main(int argc, char **argv)
{
    probe_start(argc, argv);
    wiped = alone(SIZE);
    left_out = alone(SIZE);
    locked = alone(4096);
    do {
        pthread_t thread;
        probe_fill(wiped, SIZE, probe_cycle());
        probe_fill(left_out, SIZE, probe_cycle() + 1);
        stop = changes = 0;
        PROBE_ZERO(pthread_create(&thread, NULL, change, NULL));
        probe_await("first change", &changes);
        probe_ready();
        stop = 1;
        PROBE_ZERO(pthread_join(thread, NULL));
        PROBE_SABOTAGE("contents", wiped[4711] ^= 1);
        probe_filled("contents of what copies have as zeros", wiped, SIZE, probe_cycle());
        probe_filled("contents of what copies lack", left_out, SIZE, probe_cycle() + 1);
    } while (probe_more());
    return probe_pass();
}
