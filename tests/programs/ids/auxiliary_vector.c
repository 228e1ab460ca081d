// SPDX-License-Identifier: Apache-2.0
// The auxiliary vector: the library's copy, and the one that /proc shows.
#include "probe.h"

#include <elf.h>
#include <sys/auxv.h>

int main(int argc, char **argv)
{
    probe_start(argc, argv);
    const unsigned long types[] = {AT_PHDR,     AT_PHNUM,  AT_ENTRY, AT_BASE, AT_RANDOM,
                                   AT_PLATFORM, AT_EXECFN, AT_UID,   AT_EUID, AT_SECURE};
    enum { COUNT = sizeof types / sizeof types[0] };
    unsigned long expected[COUNT];
    unsigned char random[16];
    memcpy(random, (void *)getauxval(AT_RANDOM), sizeof random);
    for (int i = 0; i < COUNT; i++) {
        expected[i] = getauxval(types[i]);
    }
    do {
        probe_ready();
        PROBE_SABOTAGE("entry", expected[2]++);
        Elf64_auxv_t entries[64];
        int fd = PROBE_TRY(open("/proc/self/auxv", O_RDONLY));
        const ssize_t size = PROBE_TRY(read(fd, entries, sizeof entries));
        close(fd);
        for (int i = 0; i < COUNT; i++) {
            char what[64];
            snprintf(what, sizeof what, "entry %lu of the library", types[i]);
            probe_equal(what, (long long)expected[i], (long long)getauxval(types[i]));
            bool found = false;
            for (size_t j = 0; j < (size_t)size / sizeof entries[0]; j++) {
                if (entries[j].a_type == types[i]) {
                    snprintf(what, sizeof what, "entry %lu in /proc", types[i]);
                    probe_equal(what, (long long)expected[i], (long long)entries[j].a_un.a_val);
                    found = true;
                }
            }
            probe_true("entry in /proc", found);
        }
        probe_equal_bytes("random bytes", random, (void *)getauxval(AT_RANDOM), sizeof random);
    } while (probe_more());
    return probe_pass();
}
