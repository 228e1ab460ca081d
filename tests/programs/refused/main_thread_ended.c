// SPDX-License-Identifier: Apache-2.0
// The main thread has ended, and two other threads continue to count.
#include "probe.h"

static volatile long counts[2];

static void *count(void *own)
{
    volatile long *mine = own;
    for (;;) {
        ++*mine;
        usleep(500);
    }
    return NULL;
}

static void *judge(void *main_thread)
{
    PROBE_ZERO(pthread_join(*(pthread_t *)main_thread, NULL));
    do {
        probe_ready();
        for (int i = 0; i < 2; i++) {
            const long before = counts[i];
            PROBE_SABOTAGE("counter", probe_fail("a counter stands still"));
            for (int patience = 0; counts[i] == before; patience++) {
                probe_true("a thread goes on counting", patience < 30000);
                usleep(1000);
            }
        }
    } while (probe_more());
    exit(probe_pass());
}

int main(int argc, char **argv)
{
    static pthread_t self;
    pthread_t thread;
    probe_start(argc, argv);
    self = pthread_self();
    for (int i = 0; i < 2; i++) {
        PROBE_ZERO(pthread_create(&thread, NULL, count, (void *)&counts[i]));
    }
    PROBE_ZERO(pthread_create(&thread, NULL, judge, &self));
    pthread_exit(NULL);
}
