// SPDX-License-Identifier: Apache-2.0
// dup'ed descriptors move one offset; files opened twice move two.
#include "probe.h"

int main(int argc, char **argv)
{
    probe_start(argc, argv);
    int first = PROBE_TRY(open(probe_path("file"), O_CREAT | O_RDWR, 0600));
    PROBE_TRY(ftruncate(first, 1000));
    int shares = PROBE_TRY(dup(first));
    int own = PROBE_TRY(open(probe_path("file"), O_RDWR));
    do {
        probe_ready();
        PROBE_SABOTAGE("dup", dup2(PROBE_TRY(open(probe_path("file"), O_RDWR)), shares));
        PROBE_SABOTAGE("separate", dup2(first, own));
        PROBE_TRY(lseek(own, 7, SEEK_SET));
        PROBE_TRY(lseek(first, 321, SEEK_SET));
        probe_equal("offset seen through the dup", 321, lseek(shares, 0, SEEK_CUR));
        probe_equal("offset of the separate open", 7, lseek(own, 0, SEEK_CUR));
        PROBE_TRY(fcntl(first, F_SETFL, O_APPEND));
        probe_equal("O_APPEND seen through the dup", O_APPEND, fcntl(shares, F_GETFL) & O_APPEND);
        probe_equal("O_APPEND of the separate open", 0, fcntl(own, F_GETFL) & O_APPEND);
        PROBE_TRY(fcntl(first, F_SETFL, 0));
    } while (probe_more());
    return probe_pass();
}
