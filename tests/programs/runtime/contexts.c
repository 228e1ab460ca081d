// SPDX-License-Identifier: Apache-2.0
// A second stack by makecontext, saved while running on it, and jumps by setjmp across the check.
#include "probe.h"

#include <setjmp.h>
#include <ucontext.h>

static ucontext_t outer, inner;
static unsigned char stack[256 * 1024];
static int on_stack;

static void coroutine(void)
{
    for (;;) {
        unsigned char *here = __builtin_frame_address(0);
        probe_ready();
        on_stack = here > stack && here < stack + sizeof stack;
        swapcontext(&inner, &outer);
    }
}

int main(int argc, char **argv)
{
    probe_start(argc, argv);
    PROBE_TRY(getcontext(&inner));
    inner.uc_stack.ss_sp = stack;
    inner.uc_stack.ss_size = sizeof stack;
    makecontext(&inner, coroutine, 0);
    do {
        jmp_buf place;
        volatile int jumped = 0;
        if (setjmp(place) == 0) {
            PROBE_TRY(swapcontext(&outer, &inner));
            jumped = 1;
            longjmp(place, 1);
        }
        PROBE_SABOTAGE("stack", on_stack = 0);
        probe_equal("running on the second stack", 1, on_stack);
        probe_equal("longjmp to before the check", 1, jumped);
    } while (probe_more());
    return probe_pass();
}
