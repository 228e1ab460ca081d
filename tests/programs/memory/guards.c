// SPDX-License-Identifier: Apache-2.0
// Guard pages (MADV_GUARD_INSTALL): they are in the page tables, not in the mapping. Touching one
// faults until it is removed; the pages between them keep their contents.
#include "probe.h"
#include <setjmp.h>

enum { PAGE = 4096, COUNT = 32, INSTALL = 102, REMOVE = 103 };

static sigjmp_buf back;

static void on_fault(int signal)
{
    (void)signal;
    siglongjmp(back, 1);
}

static bool faults(volatile unsigned char *at)
{
    if (sigsetjmp(back, 1) != 0) {
        return true;
    }
    (void)*at;
    return false;
}

static bool is_guard(unsigned i)
{
    return i == 0 || i == COUNT - 1 || i % 5 == 3;
}

static unsigned char *make(int flags)
{
    unsigned char *memory = PROBE_MAP(mmap(NULL, COUNT * PAGE, PROT_READ | PROT_WRITE,
                                           MAP_PRIVATE | MAP_ANONYMOUS | flags, -1, 0));
    probe_fill(memory, COUNT * PAGE, 1);
    for (unsigned i = 0; i < COUNT; i++) {
        if (is_guard(i)) {
            PROBE_TRY(madvise(memory + i * PAGE, PAGE, INSTALL));
        }
    }
    return memory;
}

static void check(unsigned char *memory, unsigned removed)
{
    for (unsigned i = 0; i < COUNT; i++) {
        unsigned char *page = memory + i * PAGE;
        const bool guard = is_guard(i) && i != removed;
        if (guard != faults(page)) {
            probe_fail("guard page %u: expected %s, found %s", i, guard ? "a fault" : "memory",
                       guard ? "memory" : "a fault");
        }
        if (!guard && i != removed) {
            unsigned char expected[COUNT * PAGE];
            probe_fill(expected, sizeof(expected), 1);
            probe_equal_bytes("page between guards", expected + i * PAGE, page, PAGE);
        }
    }
}

int main(int argc, char **argv)
{
    probe_start(argc, argv);
    const struct sigaction action = {.sa_handler = on_fault};
    PROBE_TRY(sigaction(SIGSEGV, &action, NULL));
    unsigned char *memory = make(0);
    unsigned char *locked = make(0);
    unsigned char *read_only = make(MAP_NORESERVE);
    mlock(locked, COUNT * PAGE); // reports an error because of the guards, but locks
    PROBE_TRY(mprotect(read_only, COUNT * PAGE, PROT_READ));
    do {
        const unsigned removed = probe_cycle() > 1 ? 3 : COUNT;
        probe_ready();
        PROBE_SABOTAGE("guard", madvise(memory + 8 * PAGE, PAGE, REMOVE));
        check(memory, removed);
        check(locked, removed);
        check(read_only, COUNT);
        probe_true("the memory is locked still",
                   msync(locked + 2 * PAGE, PAGE, MS_ASYNC | MS_INVALIDATE) == -1 &&
                       errno == EBUSY);
        if (removed != 3) {
            for (unsigned char *whose = memory; whose != NULL;
                 whose = whose == memory ? locked : NULL) {
                PROBE_TRY(madvise(whose + 3 * PAGE, PAGE, REMOVE));
                probe_equal("byte of a page that was a guard", 0, whose[3 * PAGE]);
            }
        }
    } while (probe_more());
    return probe_pass();
}
