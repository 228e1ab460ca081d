// SPDX-License-Identifier: Apache-2.0
// Memory that may be written can no longer become executable (PR_SET_MDWE); what was both before
// stays so. Children inherit that, or not (NO_INHERIT).
#include "probe.h"

#include <sys/prctl.h>

enum { SET_MDWE = 65, GET_MDWE = 66, SIZE = 4096 };
#ifdef NO_INHERIT
enum { BITS = 3, OF_CHILD = 0 }; // PR_MDWE_REFUSE_EXEC_GAIN, PR_MDWE_NO_INHERIT
#else
enum { BITS = 1, OF_CHILD = BITS };
#endif

static const unsigned char returns_7[] = {0xb8, 7, 0, 0, 0, 0xc3}; // mov $7, %eax; ret

static int call(const unsigned char *code)
{
    int (*function)(void);
    memcpy(&function, &code, sizeof function);
    return function();
}

static void in_child(void)
{
    probe_await_check();
    probe_equal("bits of the child", OF_CHILD, prctl(GET_MDWE, 0, 0, 0, 0));
}

int main(int argc, char **argv)
{
    probe_start(argc, argv);
    unsigned char *both = PROBE_MAP(
        mmap(NULL, SIZE, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    memcpy(both, returns_7, sizeof returns_7);
    unsigned char *data =
        PROBE_MAP(mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    if (prctl(SET_MDWE, BITS, 0, 0, 0) != 0) {
        probe_lacks("PR_SET_MDWE");
    }
    do {
        pid_t child = probe_fork(in_child);
        probe_ready();
        long bits = PROBE_TRY(prctl(GET_MDWE, 0, 0, 0, 0));
        PROBE_SABOTAGE("bits", bits = 0);
        probe_equal("bits", BITS, bits);
        probe_equal("result of making memory executable", -1,
                    mprotect(data, SIZE, PROT_READ | PROT_EXEC));
        probe_equal("error of making memory executable", EACCES, errno);
        probe_equal("result of the code", 7, call(both));
        both[1]++;
        probe_equal("result of the changed code", 8, call(both));
        both[1]--;
        probe_reap("the child", child);
    } while (probe_more());
    return probe_pass();
}
