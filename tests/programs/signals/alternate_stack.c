// SPDX-License-Identifier: Apache-2.0
// The alternate signal stack of each thread: place, size, and handlers that run on it.
#include "probe.h"

static unsigned char stacks[2][65536];
static volatile int set, check;

static void on_signal(int number)
{
    const unsigned char *here = __builtin_frame_address(0);
    (void)number;
    probe_true("handler on the stack of its thread",
               here > stacks[check] && here < stacks[check] + sizeof stacks[check]);
}

static void use_stack(int i)
{
    const stack_t stack = {.ss_sp = stacks[i], .ss_size = sizeof stacks[i]};
    PROBE_TRY(sigaltstack(&stack, NULL));
}

static void has_stack(int i)
{
    stack_t found;
    PROBE_TRY(sigaltstack(NULL, &found));
    probe_equal("flags of the stack", 0, found.ss_flags);
    probe_equal("place of the stack", (long long)(intptr_t)stacks[i],
                (long long)(intptr_t)found.ss_sp);
    probe_equal("size of the stack", sizeof stacks[i], (long long)found.ss_size);
    PROBE_ZERO(pthread_kill(pthread_self(), SIGUSR1));
}

static void *worker(void *unused)
{
    use_stack(1);
    set = 1;
    probe_await("check", &check);
    has_stack(1);
    return unused;
}

int main(int argc, char **argv)
{
    probe_start(argc, argv);
    struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_ONSTACK};
    PROBE_TRY(sigaction(SIGUSR1, &action, NULL));
    use_stack(0);
    do {
        pthread_t thread;
        set = check = 0;
        PROBE_ZERO(pthread_create(&thread, NULL, worker, NULL));
        probe_await("stack of the thread", &set);
        probe_ready();
        PROBE_SABOTAGE("stack", sigaltstack(&(stack_t){.ss_flags = SS_DISABLE}, NULL));
        has_stack(0);
        check = 1;
        PROBE_ZERO(pthread_join(thread, NULL));
    } while (probe_more());
    return probe_pass();
}
