// SPDX-License-Identifier: Apache-2.0
// xmm0 to xmm15 of a thread that sleeps in the C library's syscall(), which does not touch them;
// hand-written code relies on that.
#include "probe.h"
#include "registers_each.h"

#include <linux/futex.h>

static int word;
static unsigned char loaded[16][16], found[16][16];

static long sleep_in_futex(void *unused)
{
    (void)unused;
    long result;
    long (*const call)(long, ...) = syscall; // as the program resolves it, even if interposed
    // The arguments are in rdi to r9; a seventh, which this call lacks, would be on the stack.
    register long limit __asm__("r8") = 0;
    register const void *second __asm__("r9") = NULL;
    long number = SYS_futex;
    int *address = &word;
    long operation = FUTEX_WAIT;
    long value = 0;
    __asm__ volatile(EACH(LOAD_XMM) "movq %%rsp, %%rbp\n"
                                    "subq $128, %%rsp\n" // skips the red zone of a leaf function
                                    "andq $-16, %%rsp\n"
                                    "call *%[call]\n"
                                    "movq %%rbp, %%rsp\n" EACH(STORE_XMM)
                     : "=&a"(result), "+D"(number), "+S"(address), "+d"(operation), "+c"(value),
                       "+r"(limit), "+r"(second)
                     : [in] "b"(loaded), [out] "r"(found), [call] "r"(call)
                     : "memory", "cc", "r10", "r11", "rbp", "xmm0", "xmm1", "xmm2", "xmm3", "xmm4",
                       "xmm5", "xmm6", "xmm7", "xmm8", "xmm9", "xmm10", "xmm11", "xmm12", "xmm13",
                       "xmm14", "xmm15");
    return result;
}

int main(int argc, char **argv)
{
    probe_start(argc, argv);
    probe_fill(loaded, sizeof loaded, 1);
    do {
        struct probe_sleeper sleeper;
        word = 0;
        probe_sleep_in(&sleeper, SYS_futex, sleep_in_futex, NULL);
        probe_ready();
        probe_still_asleep("futex", &sleeper);
        word = 1;
        PROBE_TRY(syscall(SYS_futex, &word, FUTEX_WAKE, 1, NULL, NULL, 0));
        probe_woken("futex", &sleeper, 0, 0);
        PROBE_SABOTAGE("xmm", found[7][3] ^= 1);
        probe_equal_bytes("xmm registers", loaded, found, sizeof loaded);
    } while (probe_more());
    return probe_pass();
}
