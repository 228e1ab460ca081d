// SPDX-License-Identifier: Apache-2.0
// futex(2) by the raw system call: waiting without and with a timeout, and on a bit set.
#include "probe.h"

#include <linux/futex.h>

static uint32_t word;

static long call_plain(void *unused)
{
    (void)unused;
    return syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, 0, NULL, NULL, 0);
}

static long call_timed(void *unused)
{
    (void)unused;
    const struct timespec day = {.tv_sec = 86400};
    return syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, 0, &day, NULL, 0);
}

static long call_bits(void *unused)
{
    (void)unused;
    return syscall(SYS_futex, &word, FUTEX_WAIT_BITSET_PRIVATE, 0, NULL, NULL, 0xf0);
}

int main(int argc, char **argv)
{
    probe_start(argc, argv);
    do {
        struct probe_sleeper sleepers[3];
        const char *names[] = {"futex", "futex with a timeout", "futex with bits"};
        word = 0;
        probe_sleep_in(&sleepers[0], SYS_futex, call_plain, NULL);
        probe_sleep_in(&sleepers[1], SYS_futex, call_timed, NULL);
        probe_sleep_in(&sleepers[2], SYS_futex, call_bits, NULL);
        probe_ready();
        PROBE_SABOTAGE("futex", syscall(SYS_futex, &word, FUTEX_WAKE_PRIVATE, 3, NULL, NULL, 0);
                       probe_await("end", &sleepers[0].done));
        for (int i = 0; i < 3; i++) {
            probe_still_asleep(names[i], &sleepers[i]);
        }
        // A waiter on its way back to sleep cannot be woken yet: repeat until three are woken.
        for (long woken = 0; woken < 3;) {
            woken += PROBE_TRY(
                syscall(SYS_futex, &word, FUTEX_WAKE_BITSET_PRIVATE, 3 - woken, NULL, NULL, 0x10));
            PROBE_TRY(nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL));
        }
        for (int i = 0; i < 3; i++) {
            probe_woken(names[i], &sleepers[i], 0, 0);
        }
    } while (probe_more());
    return probe_pass();
}
