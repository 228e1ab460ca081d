// SPDX-License-Identifier: Apache-2.0
// 0 and 2 are closed, 1 is another file: a restart must not put anything in their place.
#include "probe.h"

int main(int argc, char **argv)
{
    probe_start(argc, argv);
    int other = PROBE_TRY(open(probe_path("file"), O_CREAT | O_RDWR, 0600));
    PROBE_TRY(dup2(other, 1));
    PROBE_TRY(close(0));
    PROBE_TRY(close(2));
    PROBE_TRY(lseek(1, 44, SEEK_SET));
    do {
        probe_ready();
        PROBE_SABOTAGE("descriptor 2", dup2(other, 2));
        PROBE_SABOTAGE("descriptor 1", lseek(1, 0, SEEK_SET));
        probe_equal("descriptor 0", -1, fcntl(0, F_GETFD));
        probe_equal("descriptor 2", -1, fcntl(2, F_GETFD));
        probe_equal("offset of descriptor 1", 44, lseek(1, 0, SEEK_CUR));
    } while (probe_more());
    return probe_pass();
}
