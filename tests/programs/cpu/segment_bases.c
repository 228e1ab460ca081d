// SPDX-License-Identifier: Apache-2.0
// FS base (thread-local storage) and GS base, of main and of a thread.
#include "probe.h"

#include <asm/prctl.h>

static uint64_t by_main[2] = {0, 0x1111}, by_thread[2] = {0, 0x2222};
static _Thread_local int own;
static volatile int set, check;

static uint64_t word_at_gs_8(void)
{
    uint64_t word;
    __asm__ volatile("movq %%gs:8, %0" : "=r"(word));
    return word;
}

static void set_gs(uint64_t *base)
{
    PROBE_TRY(syscall(SYS_arch_prctl, ARCH_SET_GS, base));
}

static void bases(const char *who, const uint64_t *gs, int value)
{
    unsigned long fs_base = 0, gs_base = 0;
    char what[64];
    PROBE_TRY(syscall(SYS_arch_prctl, ARCH_GET_FS, &fs_base));
    PROBE_TRY(syscall(SYS_arch_prctl, ARCH_GET_GS, &gs_base));
    snprintf(what, sizeof what, "gs base of %s", who);
    probe_equal(what, (long long)(uintptr_t)gs, (long long)gs_base);
    probe_equal(what, (long long)gs[1], (long long)word_at_gs_8());
    snprintf(what, sizeof what, "fs base of %s", who);
    probe_equal(what, (long long)(uintptr_t)pthread_self(), (long long)fs_base);
    snprintf(what, sizeof what, "thread-local of %s", who);
    probe_equal(what, value, own);
}

static void *in_thread(void *unused)
{
    set_gs(by_thread);
    own = 22;
    set = 1;
    probe_await("check", &check);
    bases("the thread", by_thread, 22);
    return unused;
}

int main(int argc, char **argv)
{
    probe_start(argc, argv);
    set_gs(by_main);
    own = 11;
    do {
        pthread_t thread;
        set = check = 0;
        PROBE_ZERO(pthread_create(&thread, NULL, in_thread, NULL));
        probe_await("gs base of the thread", &set);
        probe_ready();
        PROBE_SABOTAGE("gs base", set_gs(by_thread));
        PROBE_SABOTAGE("thread-local", own = 0);
        bases("main", by_main, 11);
        check = 1;
        PROBE_ZERO(pthread_join(thread, NULL));
    } while (probe_more());
    return probe_pass();
}
