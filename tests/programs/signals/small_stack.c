// SPDX-License-Identifier: Apache-2.0
// Code on a stack without room for a signal frame, like a coroutine's: its handlers are installed,
// for every signal up to LAST, to run on the alternate stack, and nothing else may use the small
// one.
#include "probe.h"

#include <ucontext.h>

enum { SMALL = 2048, GUARDED = 65536 };

static unsigned char alternate[65536];
static unsigned char guarded[GUARDED + SMALL]; // the small stack is the upper end
static ucontext_t outside, inside;
static volatile int running, leave;

static void on_signal(int number)
{
    (void)number;
}

// Calls no function: there is no room for a frame.
static void on_small_stack(void)
{
    running = 1;
    while (!leave) {
        __asm__ volatile("pause");
    }
}

static void *worker(void *unused)
{
    const stack_t stack = {.ss_sp = alternate, .ss_size = sizeof alternate};
    PROBE_TRY(sigaltstack(&stack, NULL));
    PROBE_TRY(getcontext(&inside));
    inside.uc_stack.ss_sp = guarded + GUARDED;
    inside.uc_stack.ss_size = SMALL;
    inside.uc_link = &outside;
    makecontext(&inside, on_small_stack, 0);
    PROBE_TRY(swapcontext(&outside, &inside));
    return unused;
}

int main(int argc, char **argv)
{
    probe_start(argc, argv);
    const struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_ONSTACK | SA_RESTART};
    for (int number = SIGRTMIN; number <= LAST; number++) {
        PROBE_TRY(sigaction(number, &action, NULL));
    }
    do {
        pthread_t thread;
        running = leave = 0;
        probe_fill(guarded, GUARDED, probe_cycle());
        PROBE_ZERO(pthread_create(&thread, NULL, worker, NULL));
        probe_await("the small stack", &running);
        probe_ready();
        PROBE_SABOTAGE("below", guarded[GUARDED - 1] ^= 1);
        probe_filled("memory below the small stack", guarded, GUARDED, probe_cycle());
        leave = 1;
        PROBE_ZERO(pthread_join(thread, NULL));
    } while (probe_more());
    return probe_pass();
}
