// SPDX-License-Identifier: Apache-2.0
// The library that loader_lock loads slowly.
#include <poll.h>
#include <stdlib.h>

__attribute__((constructor)) static void take_time(void)
{
    const char *address = getenv("SLOW_PLUGIN_STEPS");
    volatile int *steps = (volatile int *)strtoull(address, NULL, 16);
    steps[0] = 1;
    while (steps[1] == 0) {
        poll(NULL, 0, 1);
    }
}
