// SPDX-License-Identifier: Apache-2.0
// Streams whose other end was closed with unread data: behind the bytes that wait, if any do, and
// a descriptor with them, the next call reports that, once.
#include "passing.h"

int main(int argc, char **argv)
{
    probe_start(argc, argv);
    do {
        int filled[2], empty[2], got[most_files];
        char text[16];
        PROBE_TRY(socketpair(AF_UNIX, SOCK_STREAM, 0, filled));
        PROBE_TRY(socketpair(AF_UNIX, SOCK_STREAM, 0, empty));
        PROBE_TRY(send(filled[1], "x", 1, 0));
        PROBE_TRY(send(empty[1], "x", 1, 0));
        const int file = new_file("file", "passed", 3);
        PROBE_TRY(send(filled[0], "in ", 3, 0));
        send_files(filled[0], "front", 5, 1, &file);
        PROBE_TRY(close(file));
        PROBE_TRY(close(filled[0]));
        PROBE_TRY(close(empty[0]));
        probe_ready();
        probe_equal("descriptors in front of it", 1, receive_files(filled[1], text, 15, got));
        probe_equal_text("bytes in front of it", "in front", text);
        expect_text("file in front of it", "sed", got[0]);
        PROBE_SABOTAGE("stream", recv(filled[1], text, 1, 0));
        probe_equal("stream of bytes", -1, recv(filled[1], text, 1, 0));
        probe_equal("error of the stream", ECONNRESET, errno);
        probe_equal("end of the stream", 0, recv(filled[1], text, 1, 0));
        PROBE_SABOTAGE("empty one", recv(empty[1], text, 1, 0));
        probe_equal("empty one", -1, send(empty[1], "y", 1, MSG_NOSIGNAL));
        probe_equal("error of the empty one", EPIPE, errno);
        probe_equal("empty one, read", -1, recv(empty[1], text, 1, 0));
        probe_equal("why the empty one is not read", ECONNRESET, errno);
        close_files(3, (int[]){filled[1], empty[1], got[0]});
    } while (probe_more());
    return probe_pass();
}
