// SPDX-License-Identifier: Apache-2.0
// Settings of prctl that one thread has of its own: the time-stamp counter traps (PR_SET_TSC), and
// memory failures are told early (PR_MCE_KILL). The main thread has the usual ones.
#include "probe.h"

#include <sys/prctl.h>
#include <ucontext.h>

struct settings {
    int tsc, machine_check;
};

static struct settings now(void)
{
    struct settings found = {0};
    PROBE_TRY(prctl(PR_GET_TSC, &found.tsc));
    found.machine_check = (int)PROBE_TRY(prctl(PR_MCE_KILL_GET, 0, 0, 0, 0));
    return found;
}

static struct settings found;
static volatile sig_atomic_t traps;
static int one_trap; // 0: a virtual machine may let programs read the counter all the same
static volatile int ready, asked, answered;

static void on_trap(int number, siginfo_t *info, void *context)
{
    enum { SIZE_OF_RDTSC = 2 };
    (void)number, (void)info;
    traps++;
    ((ucontext_t *)context)->uc_mcontext.gregs[REG_RIP] += SIZE_OF_RDTSC;
}

static void read_counter(void)
{
    unsigned low = 0, high = 0;
    __asm__ volatile("rdtsc" : "+a"(low), "+d"(high));
}

// Reads no clock, which may be read by that counter, too.
static void *own_settings(void *nothing)
{
    PROBE_TRY(prctl(PR_SET_TSC, PR_TSC_SIGSEGV));
    PROBE_TRY(prctl(PR_MCE_KILL, PR_MCE_KILL_SET, PR_MCE_KILL_EARLY, 0, 0));
    read_counter();
    one_trap = traps;
    for (ready = 1;; answered++) {
        while (asked == answered) {
            usleep(1000);
        }
        PROBE_SABOTAGE("counter", prctl(PR_SET_TSC, PR_TSC_ENABLE));
        PROBE_SABOTAGE("memory failures", prctl(PR_MCE_KILL, PR_MCE_KILL_CLEAR, 0, 0, 0));
        found = now();
        read_counter();
    }
    return nothing;
}

int main(int argc, char **argv)
{
    probe_start(argc, argv);
    struct sigaction action = {.sa_sigaction = on_trap, .sa_flags = SA_SIGINFO};
    PROBE_TRY(sigaction(SIGSEGV, &action, NULL));
    const struct settings main_thread = now();
    pthread_t thread;
    PROBE_ZERO(pthread_create(&thread, NULL, own_settings, NULL));
    probe_await("the thread", &ready);
    do {
        probe_ready();
        traps = 0;
        asked++;
        while (answered != asked) {
            usleep(1000);
        }
        probe_equal("counter of the thread", PR_TSC_SIGSEGV, found.tsc);
        probe_equal("counter of the thread: traps", one_trap, traps);
        probe_equal("memory failures of the thread", PR_MCE_KILL_EARLY, found.machine_check);
        read_counter();
        probe_equal("counter of main: traps", one_trap, traps);
        const struct settings still = now();
        probe_equal("counter of main", main_thread.tsc, still.tsc);
        probe_equal("memory failures of main", main_thread.machine_check, still.machine_check);
    } while (probe_more());
    return probe_pass();
}
