// SPDX-License-Identifier: Apache-2.0
// Every page protection, including PROT_NONE guards with contents below and code made at run time.
#include "probe.h"

#include <setjmp.h>

enum { PAGE = 4096 };

static sigjmp_buf back;

static void on_fault(int number)
{
    siglongjmp(back, number);
}

static bool readable(volatile unsigned char *at)
{
    if (sigsetjmp(back, 1) != 0) {
        return false;
    }
    (void)*at;
    return true;
}

static bool writable(volatile unsigned char *at)
{
    if (sigsetjmp(back, 1) != 0) {
        return false;
    }
    *at = *at;
    return true;
}

int main(int argc, char **argv)
{
    probe_start(argc, argv);
    signal(SIGSEGV, on_fault);
    const int rights[] = {PROT_NONE, PROT_READ, PROT_READ | PROT_WRITE, PROT_READ | PROT_EXEC,
                          PROT_READ | PROT_WRITE | PROT_EXEC};
    unsigned char *memory =
        PROBE_MAP(mmap(NULL, 5 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    const unsigned char return_42[] = {0xb8, 42, 0, 0, 0, 0xc3};
    for (int i = 0; i < 5; i++) {
        memcpy(memory + i * PAGE, return_42, sizeof return_42);
        PROBE_TRY(mprotect(memory + i * PAGE, PAGE, rights[i]));
    }
    do {
        probe_ready();
        PROBE_SABOTAGE("guard", mprotect(memory, PAGE, PROT_READ));
        PROBE_SABOTAGE("read-only", mprotect(memory + PAGE, PAGE, PROT_READ | PROT_WRITE));
        for (int i = 0; i < 5; i++) {
            const char *names[] = {"guard", "read-only", "writable", "code", "writable code"};
            char what[64];
            snprintf(what, sizeof what, "%s page is readable", names[i]);
            probe_equal(what, i != 0, readable(memory + i * PAGE));
            snprintf(what, sizeof what, "%s page is writable", names[i]);
            probe_equal(what, i == 2 || i == 4, writable(memory + i * PAGE));
        }
        for (int i = 3; i < 5; i++) {
            int (*function)(void);
            void *at = memory + i * PAGE;
            memcpy(&function, &at, sizeof at);
            probe_equal("result of code made at run time", 42, function());
        }
        PROBE_TRY(mprotect(memory, PAGE, PROT_READ));
        probe_equal("contents below the guard", 42, memory[1]);
        PROBE_TRY(mprotect(memory, PAGE, PROT_NONE));
    } while (probe_more());
    return probe_pass();
}
