// SPDX-License-Identifier: Apache-2.0
// A library loaded by dlopen: its code, data, and constructor; dlsym, dlclose, dlopen still work.
#include "probe.h"

#include <dlfcn.h>

static int (*count_up)(void);

static void find(void *library)
{
    void *symbol = dlsym(library, "plugin_count_up");
    if (symbol == NULL) {
        probe_fail("dlsym: expected plugin_count_up, found %s", dlerror());
    }
    memcpy(&count_up, &symbol, sizeof symbol);
}

static void *load(void)
{
    void *library = dlopen(PLUGIN, RTLD_NOW | RTLD_LOCAL);
    if (library == NULL) {
        probe_fail("dlopen: %s", dlerror());
    }
    find(library);
    return library;
}

int main(int argc, char **argv)
{
    probe_start(argc, argv);
    do {
        void *library = load();
        probe_equal("count after the constructor", 101, count_up());
        probe_ready();
        PROBE_SABOTAGE("count", count_up());
        probe_equal("count in the library's data", 102, count_up());
        find(library);
        probe_equal("count by a new dlsym", 103, count_up());
        probe_equal("dlclose", 0, dlclose(library));
    } while (probe_more());
    return probe_pass();
}
