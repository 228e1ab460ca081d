// SPDX-License-Identifier: Apache-2.0
// Settings of prctl: death signal, child subreaper, no new privileges, timer slack, keep-caps, THP.
#include "sparse.h"

#include <sys/prctl.h>

static int death_signal(void)
{
    int number = -1;
    PROBE_TRY(prctl(PR_GET_PDEATHSIG, &number));
    return number;
}

static int subreaper(void)
{
    int on = -1;
    PROBE_TRY(prctl(PR_GET_CHILD_SUBREAPER, &on));
    return on;
}

// For memory without advice only, if the kernel knows that (PR_THP_DISABLE_EXCEPT_ADVISED).
// Returns what the kernel then says.
static int disable_huge_pages(void)
{
    enum { EXCEPT_ADVISED = 2 };
    PROBE_TRY(prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0));
    if (prctl(PR_SET_THP_DISABLE, 1, EXCEPT_ADVISED, 0, 0) == 0) {
        return 1 | EXCEPT_ADVISED;
    }
    return 1;
}

int main(int argc, char **argv)
{
    probe_start(argc, argv);
    PROBE_TRY(prctl(PR_SET_PDEATHSIG, SIGHUP));
    PROBE_TRY(prctl(PR_SET_CHILD_SUBREAPER, 1));
    PROBE_TRY(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0));
    PROBE_TRY(prctl(PR_SET_TIMERSLACK, 123456));
    const int huge_pages_disabled = disable_huge_pages();
    PROBE_TRY(prctl(PR_SET_TSC, PR_TSC_ENABLE));
    unsigned char *sparse = sparse_new();
    sparse_touch(sparse);
    do {
        probe_ready();
        PROBE_SABOTAGE("death signal", prctl(PR_SET_PDEATHSIG, 0));
        PROBE_SABOTAGE("timer slack", prctl(PR_SET_TIMERSLACK, 50000));
        PROBE_SABOTAGE("sparse memory", memset(sparse, 1, SPARSE_STEP));
        probe_equal("death signal", SIGHUP, death_signal());
        probe_equal("child subreaper", 1, subreaper());
        probe_equal("no new privileges", 1, prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0));
        probe_equal("timer slack", 123456, prctl(PR_GET_TIMERSLACK));
        probe_equal("transparent huge pages disabled", huge_pages_disabled,
                    prctl(PR_GET_THP_DISABLE, 0, 0, 0, 0));
        sparse_same("sparse memory", sparse);
        probe_equal("dumpable", 1, prctl(PR_GET_DUMPABLE));
    } while (probe_more());
    return probe_pass();
}
