// SPDX-License-Identifier: Apache-2.0
// A BPF map.
#include "probe.h"

#include <linux/bpf.h>

static int bpf(int command, union bpf_attr *attributes)
{
    return (int)syscall(SYS_bpf, command, attributes, sizeof *attributes);
}

int main(int argc, char **argv)
{
    probe_start(argc, argv);
    union bpf_attr create = {
        .map_type = BPF_MAP_TYPE_ARRAY, .key_size = 4, .value_size = 8, .max_entries = 2};
    int map = bpf(BPF_MAP_CREATE, &create);
    if (map < 0) {
        probe_lacks("bpf maps");
    }
    uint32_t key = 1;
    uint64_t value = 0x1234;
    union bpf_attr element = {
        .map_fd = (uint32_t)map, .key = (uintptr_t)&key, .value = (uintptr_t)&value};
    PROBE_TRY(bpf(BPF_MAP_UPDATE_ELEM, &element));
    do {
        probe_ready();
        value = 0;
        PROBE_SABOTAGE("element", bpf(BPF_MAP_UPDATE_ELEM, &element));
        probe_equal("looking up an element", 0, bpf(BPF_MAP_LOOKUP_ELEM, &element));
        probe_equal("element", 0x1234, (long long)value);
    } while (probe_more());
    return probe_pass();
}
