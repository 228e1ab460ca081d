// SPDX-License-Identifier: Apache-2.0
// Memory protection keys: the key of a page, and the thread's rights (PKRU).
#include "probe.h"

#include <setjmp.h>

static sigjmp_buf back;

static void on_fault(int number)
{
    siglongjmp(back, number);
}

int main(int argc, char **argv)
{
    probe_start(argc, argv);
    signal(SIGSEGV, on_fault);
    volatile char *page =
        PROBE_MAP(mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    const int key = pkey_alloc(0, 0);
    if (key < 0) {
        probe_lacks("memory protection keys");
    }
    PROBE_TRY(pkey_mprotect((void *)page, 4096, PROT_READ | PROT_WRITE, key));
    PROBE_TRY(pkey_set(key, PKEY_DISABLE_WRITE));
    do {
        probe_ready();
        PROBE_SABOTAGE("rights", pkey_set(key, 0));
        probe_equal("rights of the key", PKEY_DISABLE_WRITE, pkey_get(key));
        if (sigsetjmp(back, 1) == 0) {
            page[0] = 1;
            probe_fail("rights: expected the page not to be writable, found it to be");
        }
        PROBE_TRY(pkey_set(key, PKEY_DISABLE_WRITE)); // a signal handler starts with other rights
    } while (probe_more());
    return probe_pass();
}
