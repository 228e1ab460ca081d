// SPDX-License-Identifier: Apache-2.0
// Rounding mode, flush-to-zero and sticky exception flags (MXCSR and the x87 control word), of main
// and, set differently, of a thread.
#include "probe.h"

#include <fenv.h>
#include <xmmintrin.h>

static volatile int set, check;

enum { FLUSH_AND_DENORMALS_ARE_ZERO = 0x8040 };

static uint16_t x87_control(void)
{
    uint16_t word;
    __asm__("fnstcw %0" : "=m"(word));
    return word;
}

static void *other_rounding(void *unused)
{
    fesetround(FE_DOWNWARD);
    feenableexcept(FE_DIVBYZERO);
    set = 1;
    probe_await("check", &check);
    probe_equal("rounding of the thread", FE_DOWNWARD, fegetround());
    probe_equal("enabled exceptions of the thread", FE_DIVBYZERO, fegetexcept());
    return unused;
}

int main(int argc, char **argv)
{
    probe_start(argc, argv);
    fesetround(FE_UPWARD);
    feclearexcept(FE_ALL_EXCEPT);
    feraiseexcept(FE_OVERFLOW);
    _mm_setcsr(_mm_getcsr() | FLUSH_AND_DENORMALS_ARE_ZERO);
    const unsigned mxcsr = _mm_getcsr();
    const uint16_t x87 = x87_control();
    do {
        pthread_t thread;
        set = check = 0;
        PROBE_ZERO(pthread_create(&thread, NULL, other_rounding, NULL));
        probe_await("rounding of the thread", &set);
        probe_ready();
        PROBE_SABOTAGE("mxcsr", _mm_setcsr(0x1f80));
        PROBE_SABOTAGE("x87 control word", __asm__("fninit"));
        probe_equal("mxcsr", mxcsr, _mm_getcsr());
        probe_equal("x87 control word", x87, x87_control());
        volatile double tiny = 1e-300;
        probe_equal("denormal result flushed", 0, tiny * 1e-10 != 0);
        probe_equal("sticky overflow", FE_OVERFLOW, fetestexcept(FE_OVERFLOW));
        check = 1;
        PROBE_ZERO(pthread_join(thread, NULL));
        _mm_setcsr(mxcsr); // the checks themselves raise inexact
    } while (probe_more());
    return probe_pass();
}
