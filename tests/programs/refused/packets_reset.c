// SPDX-License-Identifier: Apache-2.0
// A socket of packets whose other end was closed with unread data: the next call reports that,
// once, in front of the packets that wait. Peeking at those would consume the report.
#include "probe.h"

#include <sys/socket.h>

int main(int argc, char **argv)
{
    probe_start(argc, argv);
    do {
        int packet[2];
        char byte;
        PROBE_TRY(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, packet));
        PROBE_TRY(send(packet[0], "y", 1, 0));
        PROBE_TRY(send(packet[1], "x", 1, 0));
        PROBE_TRY(close(packet[0]));
        probe_ready();
        PROBE_SABOTAGE("packet", recv(packet[1], &byte, 1, 0));
        probe_equal("packet", -1, recv(packet[1], &byte, 1, 0));
        probe_equal("error of the packets", ECONNRESET, errno);
        probe_equal("packet behind it", 1, recv(packet[1], &byte, 1, 0));
        PROBE_TRY(close(packet[1]));
    } while (probe_more());
    return probe_pass();
}
