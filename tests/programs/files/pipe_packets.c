// SPDX-License-Identifier: Apache-2.0
// A pipe in packet mode (O_DIRECT): one read gives one packet.
#include "probe.h"

int main(int argc, char **argv)
{
    probe_start(argc, argv);
    int ends[2];
    PROBE_TRY(pipe2(ends, O_DIRECT | O_NONBLOCK));
    const char *packets[] = {"one", "a second", "3"};
    do {
        for (int i = 0; i < 3; i++) {
            PROBE_TRY(write(ends[1], packets[i], strlen(packets[i])));
        }
        probe_ready();
        PROBE_SABOTAGE("packet", read(ends[0], (char[64]){0}, 64));
        for (int i = 0; i < 3; i++) {
            char got[64] = "";
            probe_equal("size of a packet", (long long)strlen(packets[i]),
                        read(ends[0], got, sizeof got));
            probe_equal_text("packet", packets[i], got);
        }
    } while (probe_more());
    return probe_pass();
}
