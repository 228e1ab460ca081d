// SPDX-License-Identifier: Apache-2.0
// timer_create with SIGEV_THREAD: the library's helper thread runs the function, before and after.
#include "probe.h"

static volatile int calls;

static void on_timer(union sigval value)
{
    __atomic_store_n(&calls, value.sival_int, __ATOMIC_RELEASE);
}

int main(int argc, char **argv)
{
    probe_start(argc, argv);
    struct sigevent event = {.sigev_notify = SIGEV_THREAD, .sigev_notify_function = on_timer};
    event.sigev_value.sival_int = 42;
    timer_t timer;
    PROBE_TRY(timer_create(CLOCK_MONOTONIC, &event, &timer));
    const struct itimerspec soon = {.it_value.tv_nsec = 1000000};
    do {
        calls = 0;
        PROBE_TRY(timer_settime(timer, 0, &soon, NULL));
        probe_await("call before", &calls);
        probe_ready();
        calls = 0;
        PROBE_TRY(timer_settime(timer, 0, &soon, NULL));
        probe_await("call after", &calls);
        PROBE_SABOTAGE("value", calls++);
        probe_equal("value of the call", 42, calls);
    } while (probe_more());
    return probe_pass();
}
