// SPDX-License-Identifier: Apache-2.0
// Memory that the loader made read-only (RELRO), string constants and code stay read-only.
#include "probe.h"

#include <setjmp.h>

static sigjmp_buf back;
static const char *const relocated[] = {"relocated", "pointers"}; // lies in .data.rel.ro
static const char constant[] = "constant";

static void on_fault(int number)
{
    siglongjmp(back, number);
}

static void not_writable(const char *what, const volatile void *at)
{
    if (sigsetjmp(back, 1) == 0) {
        volatile char *byte = (volatile char *)(uintptr_t)at;
        *byte = *byte;
        probe_fail("%s: expected to be read-only, found writable", what);
    }
}

int main(int argc, char **argv)
{
    probe_start(argc, argv);
    signal(SIGSEGV, on_fault);
    do {
        probe_ready();
        const uintptr_t page = (uintptr_t)&relocated & ~4095ul;
        PROBE_SABOTAGE("relro", mprotect((void *)page, 4096, PROT_READ | PROT_WRITE));
        not_writable("relro data", &relocated);
        not_writable("constant", constant);
        not_writable("code", __builtin_return_address(0));
        probe_equal_text("relocated pointer", "pointers", relocated[1]);
    } while (probe_more());
    return probe_pass();
}
