// SPDX-License-Identifier: Apache-2.0
// A packet socket with a ring, which only the kernel fills.
#include "probe.h"

#include <linux/if_packet.h>
#include <sys/socket.h>

int main(int argc, char **argv)
{
    probe_start(argc, argv);
    const int packets = PROBE_TRY(socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC, 0));
    struct tpacket_req ring = {
        .tp_block_size = 4096, .tp_block_nr = 1, .tp_frame_size = 4096, .tp_frame_nr = 1};
    PROBE_TRY(setsockopt(packets, SOL_PACKET, PACKET_RX_RING, &ring, sizeof ring));
    do {
        probe_ready();
        PROBE_SABOTAGE("ring", {
            memset(&ring, 0, sizeof ring);
            PROBE_TRY(setsockopt(packets, SOL_PACKET, PACKET_RX_RING, &ring, sizeof ring));
        });
        // While there is a ring the version cannot be set.
        probe_equal(
            "a socket with a ring", -1,
            setsockopt(packets, SOL_PACKET, PACKET_VERSION, &(int){TPACKET_V1}, sizeof(int)));
    } while (probe_more());
    return probe_pass();
}
