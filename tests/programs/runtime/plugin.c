// SPDX-License-Identifier: Apache-2.0
// The library that dynamic_library loads.
static int count;

__attribute__((constructor)) static void start_at_100(void)
{
    count = 100;
}

__attribute__((visibility("default"))) int plugin_count_up(void);
int plugin_count_up(void)
{
    return ++count;
}
