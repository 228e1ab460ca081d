// SPDX-License-Identifier: Apache-2.0
// pthread_cond_timedwait with a distant deadline is woken by a signal; with one in the past it
// times out.
#include "probe.h"

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t condition = PTHREAD_COND_INITIALIZER;
static int may_go;

static long wait_until(time_t seconds_from_now)
{
    struct timespec deadline;
    clock_gettime(CLOCK_REALTIME, &deadline);
    deadline.tv_sec += seconds_from_now;
    long error = pthread_mutex_lock(&mutex);
    while (error == 0 && !may_go) {
        error = pthread_cond_timedwait(&condition, &mutex, &deadline);
    }
    pthread_mutex_unlock(&mutex);
    return error;
}

static long wait_a_day(void *unused)
{
    (void)unused;
    return wait_until(86400);
}

int main(int argc, char **argv)
{
    probe_start(argc, argv);
    do {
        struct probe_sleeper waiter;
        may_go = 0;
        probe_sleep_in(&waiter, SYS_futex, wait_a_day, NULL);
        probe_ready();
        PROBE_SABOTAGE("timed waiter", may_go = 1; pthread_cond_signal(&condition);
                       probe_await("end of the waiter", &waiter.done));
        probe_still_asleep("timed waiter", &waiter);
        probe_equal("wait until a time that has passed", ETIMEDOUT, wait_until(-1));
        PROBE_ZERO(pthread_mutex_lock(&mutex));
        may_go = 1;
        PROBE_ZERO(pthread_mutex_unlock(&mutex));
        PROBE_ZERO(pthread_cond_signal(&condition));
        probe_woken("timed waiter", &waiter, 0, 0);
    } while (probe_more());
    return probe_pass();
}
