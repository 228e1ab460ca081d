// SPDX-License-Identifier: Apache-2.0
// A frame of 1 MiB by alloca, in main and in a thread with a custom stack size.
#include "probe.h"

#include <alloca.h>

enum { FRAME = 1 << 20 };

static volatile int ready, check;

static void *in_thread(void *unused)
{
    unsigned char *frame = alloca(FRAME);
    probe_fill(frame, FRAME, 2);
    ready = 1;
    probe_await("check", &check);
    PROBE_SABOTAGE("frame of the thread", frame[FRAME / 2] ^= 1);
    probe_filled("frame of the thread", frame, FRAME, 2);
    return unused;
}

int main(int argc, char **argv)
{
    probe_start(argc, argv);
    unsigned char *frame = alloca(FRAME);
    probe_fill(frame, FRAME, 1);
    pthread_attr_t attributes;
    PROBE_ZERO(pthread_attr_init(&attributes));
    PROBE_ZERO(pthread_attr_setstacksize(&attributes, 2 * FRAME));
    do {
        pthread_t thread;
        ready = check = 0;
        PROBE_ZERO(pthread_create(&thread, &attributes, in_thread, NULL));
        probe_await("frame of the thread", &ready);
        probe_ready();
        PROBE_SABOTAGE("frame of main", frame[FRAME / 3] ^= 1);
        probe_filled("frame of main", frame, FRAME, 1);
        check = 1;
        PROBE_ZERO(pthread_join(thread, NULL));
    } while (probe_more());
    return probe_pass();
}
