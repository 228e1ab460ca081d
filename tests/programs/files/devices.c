// SPDX-License-Identifier: Apache-2.0
// /dev/null, zero, full, random, urandom.
#include "probe.h"

int main(int argc, char **argv)
{
    probe_start(argc, argv);
    int null = PROBE_TRY(open("/dev/null", O_RDWR | O_APPEND));
    int zero = PROBE_TRY(open("/dev/zero", O_RDONLY));
    int full = PROBE_TRY(open("/dev/full", O_WRONLY));
    int randomness[] = {(int)PROBE_TRY(open("/dev/urandom", O_RDONLY)),
                        (int)PROBE_TRY(open("/dev/random", O_RDONLY))};
    do {
        probe_ready();
        PROBE_SABOTAGE("full", dup2(null, full));
        PROBE_SABOTAGE("zero", dup2(randomness[0], zero));
        char bytes[64];
        const char zeros[sizeof bytes] = {0};
        probe_equal("bytes that null takes", 64, write(null, zeros, 64));
        probe_equal("bytes that null gives", 0, read(null, bytes, 64));
        probe_equal("bytes that zero gives", 64, read(zero, bytes, 64));
        probe_equal_bytes("what zero gives", zeros, bytes, 64);
        probe_equal("bytes that full takes", -1, write(full, zeros, 64));
        probe_equal("error of full", ENOSPC, errno);
        for (int i = 0; i < 2; i++) {
            memset(bytes, 0, sizeof bytes);
            probe_equal("bytes that random gives", 64, read(randomness[i], bytes, 64));
            probe_true("randomness", memcmp(bytes, zeros, 64) != 0);
        }
    } while (probe_more());
    return probe_pass();
}
