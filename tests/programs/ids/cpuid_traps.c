// SPDX-License-Identifier: Apache-2.0
// The instruction CPUID is a signal for one thread (ARCH_SET_CPUID), and not for the main one.
#include "probe.h"

#include <asm/prctl.h>
#include <sys/syscall.h>
#include <ucontext.h>

static volatile sig_atomic_t traps;
static volatile int ready, asked, answered;
static volatile long found;

static void on_trap(int number, siginfo_t *info, void *context)
{
    enum { SIZE_OF_CPUID = 2 };
    (void)number, (void)info;
    traps++;
    ((ucontext_t *)context)->uc_mcontext.gregs[REG_RIP] += SIZE_OF_CPUID;
}

static void ask_processor(void)
{
    unsigned leaf = 0, b = 0, c = 0, d = 0;
    __asm__ volatile("cpuid" : "+a"(leaf), "=b"(b), "+c"(c), "=d"(d));
}

static void *trapping(void *nothing)
{
    PROBE_TRY(syscall(SYS_arch_prctl, ARCH_SET_CPUID, 0));
    for (ready = 1;; answered++) {
        while (asked == answered) {
            usleep(1000);
        }
        PROBE_SABOTAGE("cpuid", syscall(SYS_arch_prctl, ARCH_SET_CPUID, 1));
        found = PROBE_TRY(syscall(SYS_arch_prctl, ARCH_GET_CPUID, 0));
        ask_processor();
    }
    return nothing;
}

int main(int argc, char **argv)
{
    probe_start(argc, argv);
    struct sigaction action = {.sa_sigaction = on_trap, .sa_flags = SA_SIGINFO};
    PROBE_TRY(sigaction(SIGSEGV, &action, NULL));
    pthread_t thread;
    PROBE_ZERO(pthread_create(&thread, NULL, trapping, NULL));
    probe_await("the thread", &ready);
    do {
        probe_ready();
        traps = 0;
        asked++;
        while (answered != asked) {
            usleep(1000);
        }
        probe_equal("cpuid of the thread", 0, found);
        probe_equal("cpuid of the thread: traps", 1, traps);
        ask_processor();
        probe_equal("cpuid of main: traps", 1, traps);
    } while (probe_more());
    return probe_pass();
}
