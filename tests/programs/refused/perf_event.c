// SPDX-License-Identifier: Apache-2.0
// A perf event counter.
#include "probe.h"

#include <linux/perf_event.h>

int main(int argc, char **argv)
{
    probe_start(argc, argv);
    struct perf_event_attr attributes = {.type = PERF_TYPE_SOFTWARE,
                                         .size = sizeof attributes,
                                         .config = PERF_COUNT_SW_PAGE_FAULTS,
                                         .exclude_kernel = 1};
    int fd = (int)syscall(SYS_perf_event_open, &attributes, 0, -1, -1, PERF_FLAG_FD_CLOEXEC);
    if (fd < 0) {
        probe_lacks("perf events");
    }
    do {
        uint64_t before, after;
        PROBE_TRY(read(fd, &before, sizeof before));
        probe_ready();
        PROBE_SABOTAGE("counter", dup2(PROBE_TRY(open("/dev/zero", O_RDWR)), fd));
        char *memory =
            PROBE_MAP(mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
        memory[0] = 1;
        PROBE_TRY(read(fd, &after, sizeof after));
        probe_true("counter goes up", after > before);
    } while (probe_more());
    return probe_pass();
}
