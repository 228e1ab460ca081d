// SPDX-License-Identifier: Apache-2.0
// Secret memory (memfd_secret), with its descriptor or, with UNNAMED, only mapped.
#include "probe.h"

#ifndef SYS_memfd_secret
#define SYS_memfd_secret 447
#endif

int main(int argc, char **argv)
{
    probe_start(argc, argv);
    int fd = (int)syscall(SYS_memfd_secret, 0);
    if (fd < 0) {
        probe_lacks("memfd_secret");
    }
    PROBE_TRY(ftruncate(fd, 4096));
    char *secret = PROBE_MAP(mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0));
    strcpy(secret, "the secret");
#ifdef UNNAMED
    PROBE_TRY(close(fd));
#endif
    do {
        probe_ready();
        PROBE_SABOTAGE("secret", secret[0] = 'T');
        probe_equal_text("secret", "the secret", secret);
    } while (probe_more());
    return probe_pass();
}
