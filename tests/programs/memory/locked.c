// SPDX-License-Identifier: Apache-2.0
// mlock and mlock2(ONFAULT): the same amount is locked, and stays in memory.
#include "probe.h"

enum { SIZE = 16 * 4096 };

static const char *field(const char *path, const char *name)
{
    const char *at = strstr(probe_read_text(path), name);
    probe_true(name, at != NULL);
    return strndup(at, strcspn(at, "\n"));
}

int main(int argc, char **argv)
{
    probe_start(argc, argv);
    unsigned char *now =
        PROBE_MAP(mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    PROBE_TRY(mlock(now, SIZE));
    unsigned char *later =
        PROBE_MAP(mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    PROBE_TRY(mlock2(later, SIZE, MLOCK_ONFAULT));
    now[0] = later[0] = 'l';
    const char *before = field("/proc/self/status", "VmLck:");
    do {
        probe_ready();
        PROBE_SABOTAGE("VmLck", munlock(now, SIZE));
        probe_equal_text("VmLck", before, field("/proc/self/status", "VmLck:"));
        unsigned char resident[SIZE / 4096];
        PROBE_TRY(mincore(now, SIZE, resident));
        for (size_t i = 0; i < sizeof resident; i++) {
            probe_equal("residence of a locked page", 1, resident[i] & 1);
        }
        probe_equal("contents", 'l', later[0]);
    } while (probe_more());
    return probe_pass();
}
