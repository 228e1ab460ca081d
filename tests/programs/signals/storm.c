// SPDX-License-Identifier: Apache-2.0
// Two threads send each other queued signals without a pause: none is lost, none comes twice.
#include "probe.h"

static volatile int stop;
static volatile unsigned long sent[2], received[2];
static pthread_t threads[2];
static volatile int running;

static void on_signal(int number, siginfo_t *info, void *context)
{
    (void)number, (void)context;
    received[info->si_value.sival_int]++;
}

static void *sender(void *argument)
{
    const int me = (int)(intptr_t)argument;
    __atomic_add_fetch(&running, 1, __ATOMIC_ACQ_REL);
    while (__atomic_load_n(&running, __ATOMIC_ACQUIRE) != 2) {
        sched_yield();
    }
    while (!stop) {
        if (sent[me] - received[me] < 50) { // the queue has a limit
            PROBE_ZERO(
                pthread_sigqueue(threads[1 - me], SIGRTMIN + 1, (union sigval){.sival_int = me}));
            sent[me]++;
        }
    }
    // A thread's pending signals are lost when it ends, so stay until none can be pending.
    __atomic_sub_fetch(&running, 1, __ATOMIC_ACQ_REL);
    while (__atomic_load_n(&running, __ATOMIC_ACQUIRE) != 0 || received[0] < sent[0] ||
           received[1] < sent[1]) {
        sched_yield();
    }
    return NULL;
}

static void await_more(int i)
{
    for (const unsigned long before = received[i]; received[i] < before + 100;) {
        sched_yield();
    }
}

int main(int argc, char **argv)
{
    probe_start(argc, argv);
    struct sigaction action = {.sa_sigaction = on_signal, .sa_flags = SA_SIGINFO | SA_RESTART};
    PROBE_TRY(sigaction(SIGRTMIN + 1, &action, NULL));
    for (int i = 0; i < 2; i++) {
        PROBE_ZERO(pthread_create(&threads[i], NULL, sender, (void *)(intptr_t)i));
    }
    do {
        await_more(0);
        probe_ready();
        await_more(0);
        await_more(1);
    } while (probe_more());
    stop = 1;
    for (int i = 0; i < 2; i++) {
        PROBE_ZERO(pthread_join(threads[i], NULL));
    }
    PROBE_SABOTAGE("received", received[0]++);
    for (int i = 0; i < 2; i++) {
        probe_equal("signals received, of those sent", (long long)sent[i], (long long)received[i]);
    }
    return probe_pass();
}
