// SPDX-License-Identifier: Apache-2.0
// A socket in flight in a message (SCM_RIGHTS) with a descriptor waiting in itself.
#include "passing.h"

int main(int argc, char **argv)
{
    probe_start(argc, argv);
    do {
        int outer[2], inner[2], got[most_files];
        char text[8];
        PROBE_TRY(socketpair(AF_UNIX, SOCK_STREAM, 0, outer));
        PROBE_TRY(socketpair(AF_UNIX, SOCK_STREAM, 0, inner));
        const int file = new_file("file", "nested", 0);
        send_files(inner[0], "i", 1, 1, &file);
        send_files(outer[0], "o", 1, 1, &inner[1]);
        close(inner[1]);
        close(file);
        probe_ready();
        probe_equal("sockets", 1, receive_files(outer[1], text, 1, got));
        PROBE_SABOTAGE("files", PROBE_TRY(read(got[0], text, 1));
                       PROBE_TRY(write(inner[0], "n", 1)));
        probe_equal("files in the socket", 1, receive_files(got[0], text, 1, &got[1]));
        expect_text("file in the socket", "nested", got[1]);
        close_files(2, got);
        close_files(2, outer);
        close(inner[0]);
    } while (probe_more());
    return probe_pass();
}
