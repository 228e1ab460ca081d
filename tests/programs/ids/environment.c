// SPDX-License-Identifier: Apache-2.0
// The environment, including the program's changes to it.
#include "probe.h"

int main(int argc, char **argv)
{
    probe_start(argc, argv);
    PROBE_TRY(setenv("PROBE_ADDED", "one", 1));
    PROBE_TRY(setenv("HOME", "/changed", 1));
    PROBE_TRY(unsetenv("LANG"));
    PROBE_TRY(putenv((char[]){"PROBE_PUT=on the stack"}));
    const char *path = getenv("PATH");
    do {
        char number[16];
        snprintf(number, sizeof number, "%u", probe_cycle());
        PROBE_TRY(setenv("PROBE_CYCLE", number, 1));
        probe_ready();
        PROBE_SABOTAGE("added", unsetenv("PROBE_ADDED"));
        probe_equal_text("added variable", "one", getenv("PROBE_ADDED"));
        probe_equal_text("changed variable", "/changed", getenv("HOME"));
        probe_equal_text("variable put", "on the stack", getenv("PROBE_PUT"));
        probe_equal_text("variable of this cycle", number, getenv("PROBE_CYCLE"));
        probe_true("removed variable", getenv("LANG") == NULL);
        probe_true("address of an untouched variable", getenv("PATH") == path);
        probe_equal("what a child sees", 0, system("test \"$PROBE_ADDED$HOME\" = one/changed"));
    } while (probe_more());
    return probe_pass();
}
