// SPDX-License-Identifier: Apache-2.0
// A thread in dlopen still holds the loader's lock, and gives it back: also where an older thread
// ended at the moment it was to be stopped, so that fewer were stopped than had been called.
#include "probe.h"

#include <dlfcn.h>
#include <poll.h>

static volatile int steps[2]; // what slow_plugin.c knows: the constructor runs; it may end
static volatile int is_deaf, over, loaded;
static const char *volatile another = PLUGIN;

// Not by the C library, whose functions leave the checkpoint signal alone under Cryo.
static long raw_call(long number, long a, long b, long c, long d)
{
    register long fourth __asm__("r10") = d;
    long result = number;
    __asm__ volatile("syscall"
                     : "+a"(result)
                     : "D"(a), "S"(b), "d"(c), "r"(fourth)
                     : "rcx", "r11", "memory");
    return result;
}

// A signal for the whole program, which another thread takes, is pending for a moment only. One
// for this thread alone stays.
static bool is_called(void)
{
    enum { LOOKS = 20 };
    const struct timespec pause = {.tv_nsec = 1000 * 1000};
    uint64_t pending = 1;
    for (int i = 0; i < LOOKS && pending != 0; i++) {
        raw_call(SYS_nanosleep, (long)&pause, 0, 0, 0);
        probe_equal("rt_sigpending", 0, raw_call(SYS_rt_sigpending, (long)&pending, 8, 0, 0));
    }
    return pending != 0;
}

// Takes no signal, and ends as soon as one is sent to it alone.
static void *end_when_called(void *argument)
{
    const uint64_t all = ~UINT64_C(0);
    probe_equal("rt_sigprocmask", 0, raw_call(SYS_rt_sigprocmask, SIG_SETMASK, (long)&all, 0, 8));
    is_deaf = 1;
    while (!over && !is_called()) {
    }
    return argument;
}

static void *wait_until_over(void *argument)
{
    while (!over) {
        poll(NULL, 0, 1);
    }
    return argument;
}

static void *load_slowly(void *library)
{
    *(void **)library = dlopen(SLOW_PLUGIN, RTLD_NOW | RTLD_LOCAL);
    return NULL;
}

static void *load_another(void *argument)
{
    void *library = dlopen(another, RTLD_NOW | RTLD_LOCAL);
    probe_true("dlopen of another library", library != NULL);
    probe_equal("dlclose of the other library", 0, dlclose(library));
    loaded = 1;
    return argument;
}

int main(int argc, char **argv)
{
    char address[32];
    probe_start(argc, argv);
    snprintf(address, sizeof address, "%p", (void *)steps);
    PROBE_TRY(setenv("SLOW_PLUGIN_STEPS", address, 1));
    do {
        // Threads are called in this order.
        pthread_t ends, waits, loads, loads_another;
        void *slow = NULL;
        is_deaf = over = loaded = steps[0] = steps[1] = 0;
        PROBE_ZERO(pthread_create(&ends, NULL, end_when_called, NULL));
        probe_await("thread that takes no signal", &is_deaf);
        PROBE_ZERO(pthread_create(&waits, NULL, wait_until_over, NULL));
        PROBE_ZERO(pthread_create(&loads, NULL, load_slowly, &slow));
        probe_await("constructor of the slow library", &steps[0]);
        probe_ready();
        steps[1] = 1;
        PROBE_SABOTAGE("another library", another = "/nowhere");
        PROBE_ZERO(pthread_create(&loads_another, NULL, load_another, NULL));
        probe_await("dlopen while the loader's lock should be free", &loaded);
        over = 1;
        PROBE_ZERO(pthread_join(loads_another, NULL));
        PROBE_ZERO(pthread_join(loads, NULL));
        PROBE_ZERO(pthread_join(waits, NULL));
        PROBE_ZERO(pthread_join(ends, NULL));
        probe_true("dlopen of the slow library", slow != NULL);
        probe_equal("dlclose of the slow library", 0, dlclose(slow));
    } while (probe_more());
    return probe_pass();
}
