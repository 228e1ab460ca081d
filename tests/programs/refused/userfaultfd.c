// SPDX-License-Identifier: Apache-2.0
// A userfaultfd with a registered range.
#include "probe.h"

#include <linux/userfaultfd.h>
#include <sys/ioctl.h>

int main(int argc, char **argv)
{
    probe_start(argc, argv);
    int fd = (int)syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK | UFFD_USER_MODE_ONLY);
    if (fd < 0) {
        probe_lacks("userfaultfd");
    }
    struct uffdio_api api = {.api = UFFD_API};
    PROBE_TRY(ioctl(fd, UFFDIO_API, &api));
    char *memory =
        PROBE_MAP(mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    struct uffdio_register range = {.range = {.start = (uintptr_t)memory, .len = 4096},
                                    .mode = UFFDIO_REGISTER_MODE_MISSING};
    PROBE_TRY(ioctl(fd, UFFDIO_REGISTER, &range));
    do {
        probe_ready();
        PROBE_SABOTAGE("range", ioctl(fd, UFFDIO_UNREGISTER, &range.range));
        struct uffdio_zeropage zero = {.range = range.range};
        PROBE_TRY(madvise(memory, 4096, MADV_DONTNEED));
        probe_equal("filling the range", 0, ioctl(fd, UFFDIO_ZEROPAGE, &zero));
        probe_equal("contents of the range", 0, memory[0]);
    } while (probe_more());
    return probe_pass();
}
