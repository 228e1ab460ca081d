// SPDX-License-Identifier: Apache-2.0
// Threads with filters of their own, or (ALL) one that a thread has put on all of them, by a
// privilege instead of no_new_privs, and may do once more.
#include "filter.h"

enum { threads = 3 };
#ifndef ALL
static const int own[threads] = {EXDEV, ENOTBLK, 0};
#endif
static volatile int begun, cycle, answers[threads], answered;

static void *run(void *which)
{
    const int number = (int)(long)which;
#ifndef ALL
    if (own[number] != 0) {
        PROBE_TRY(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0));
        filter_getpriority(own[number], number == 0 ? SECCOMP_FILTER_FLAG_LOG : 0);
    }
#endif
    __atomic_fetch_add(&begun, 1, __ATOMIC_SEQ_CST);
    for (int seen = 0;;) {
        while (cycle == seen) {
            usleep(1000);
        }
        seen = cycle;
        answers[number] = filter_error();
        __atomic_fetch_add(&answered, 1, __ATOMIC_SEQ_CST);
    }
    return NULL;
}

int main(int argc, char **argv)
{
    probe_start(argc, argv);
    pthread_t id;
    for (long i = 0; i < threads; i++) {
        PROBE_ZERO(pthread_create(&id, NULL, run, (void *)i));
    }
    while (begun != threads) {
        usleep(1000);
    }
#ifdef ALL
    filter_getpriority(ENOTBLK, SECCOMP_FILTER_FLAG_TSYNC);
    filter_getpriority(EXDEV, SECCOMP_FILTER_FLAG_TSYNC); // the last one is asked first
#endif
    do {
        probe_ready();
        answered = 0;
        cycle++;
        while (answered != threads) {
            usleep(1000);
        }
        PROBE_SABOTAGE("error in thread 0", answers[0] = 0);
#ifdef ALL
        for (int i = 0; i < threads; i++) {
            char what[] = "error in thread 0";
            what[sizeof what - 2] = (char)('0' + i);
            probe_equal(what, EXDEV, answers[i]);
        }
        probe_equal("error in the main thread", EXDEV, filter_error());
        probe_equal("no_new_privs", 0, prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0));
        probe_equal("a thread that does not share the filters", 0,
                    filter_getpriority(EXDEV, SECCOMP_FILTER_FLAG_TSYNC));
#else
        probe_equal("error in thread 0", own[0], answers[0]);
        probe_equal("error in thread 1", own[1], answers[1]);
        probe_equal("error in thread 2", own[2], answers[2]);
        probe_equal("error in the main thread", 0, filter_error());
        probe_equal("filters of the main thread", 0, prctl(PR_GET_SECCOMP, 0, 0, 0, 0));
#endif
    } while (probe_more());
    return probe_pass();
}
