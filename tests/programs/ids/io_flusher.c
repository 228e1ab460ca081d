// SPDX-License-Identifier: Apache-2.0
// One thread helps the system to write memory out (PR_SET_IO_FLUSHER), and the main one does not.
#include "probe.h"

#include <linux/prctl.h>
#include <sys/prctl.h>

static volatile int ready, asked, answered;
static volatile int found;

static void *flusher(void *nothing)
{
    PROBE_TRY(prctl(PR_SET_IO_FLUSHER, 1, 0, 0, 0));
    for (ready = 1;; answered++) {
        while (asked == answered) {
            usleep(1000);
        }
        PROBE_SABOTAGE("flusher", prctl(PR_SET_IO_FLUSHER, 0, 0, 0, 0));
        found = (int)PROBE_TRY(prctl(PR_GET_IO_FLUSHER, 0, 0, 0, 0));
    }
    return nothing;
}

int main(int argc, char **argv)
{
    probe_start(argc, argv);
    pthread_t thread;
    PROBE_ZERO(pthread_create(&thread, NULL, flusher, NULL));
    probe_await("the thread", &ready);
    do {
        probe_ready();
        asked++;
        while (answered != asked) {
            usleep(1000);
        }
        probe_equal("flusher: the thread", 1, found);
        probe_equal("flusher: main", 0, (int)PROBE_TRY(prctl(PR_GET_IO_FLUSHER, 0, 0, 0, 0)));
    } while (probe_more());
    return probe_pass();
}
