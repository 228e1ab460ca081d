// SPDX-License-Identifier: Apache-2.0
// The position in an open directory: reading continues where it stopped, no entry twice, none lost.
#include "probe.h"

#include <dirent.h>

enum { ENTRIES = 600, TAKEN = 200 };

static bool seen[ENTRIES];

static int take(DIR *directory, int most)
{
    int count = 0;
    for (struct dirent *entry; count < most && (entry = readdir(directory)) != NULL;) {
        if (entry->d_name[0] != '.') {
            const int i = atoi(entry->d_name);
            probe_equal("times an entry was read before its position", 0, seen[i]);
            seen[i] = true;
            count++;
        }
    }
    return count;
}

int main(int argc, char **argv)
{
    probe_start(argc, argv);
    PROBE_TRY(mkdir(probe_path("many"), 0700));
    int at = PROBE_TRY(open(probe_path("many"), O_RDONLY | O_DIRECTORY));
    for (int i = 0; i < ENTRIES; i++) {
        char name[16];
        snprintf(name, sizeof name, "%d", i);
        PROBE_TRY(close(PROBE_TRY(openat(at, name, O_CREAT | O_WRONLY, 0600))));
    }
    DIR *directory = PROBE_MAP(fdopendir(at));
    do {
        memset(seen, 0, sizeof seen);
        rewinddir(directory);
        take(directory, TAKEN);
        probe_ready();
        PROBE_SABOTAGE("position", rewinddir(directory));
        probe_equal("entries from the position on", ENTRIES - TAKEN, take(directory, ENTRIES));
    } while (probe_more());
    return probe_pass();
}
