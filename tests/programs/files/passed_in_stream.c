// SPDX-License-Identifier: Apache-2.0
// Descriptors in flight through a stream (SCM_RIGHTS), between bytes that carry none: a file that
// only the message holds, one that the program has open, one that was sent twice, and one whose
// sender is closed.
#include "passing.h"

int main(int argc, char **argv)
{
    probe_start(argc, argv);
    do {
        int pair[2], left[2];
        int got[most_files];
        char text[64];
        PROBE_TRY(socketpair(AF_UNIX, SOCK_STREAM, 0, pair));
        const int held = new_file("held", "shared offset", 2);
        const int lost = new_file("lost", "nobody has it", 7);
        PROBE_TRY(write(pair[0], "ab", 2));
        send_files(pair[0], "cde", 3, 2, (int[]){lost, held});
        PROBE_TRY(write(pair[0], "fg", 2));
        send_files(pair[0], "h", 1, 3, (int[]){held, lost, lost});
        PROBE_TRY(write(pair[0], "i", 1));
        PROBE_TRY(socketpair(AF_UNIX, SOCK_STREAM, 0, left));
        send_files(left[0], "last", 4, 1, &lost);
        close(left[0]);
        close(lost);
        probe_ready();

        PROBE_SABOTAGE("bytes", receive_files(pair[1], text, 1, got));
        probe_equal("bytes before the first message", 0, receive_files(pair[1], text, 1, got));
        probe_equal_text("first of the bytes", "a", text);
        probe_equal("bytes with the first message", 2, receive_files(pair[1], text, 60, got));
        probe_equal_text("bytes up to the first message", "bcde", text);
        probe_equal("offset of the lost file", 7, lseek(got[0], 0, SEEK_CUR));
        PROBE_SABOTAGE("held", lseek(got[1], 3, SEEK_SET));
        probe_equal("offset of the held file", 2, lseek(got[1], 0, SEEK_CUR));
        PROBE_TRY(lseek(held, 7, SEEK_SET));
        expect_text("held file by the first message", "offset", got[1]);
        probe_equal("offset of the held file, having been read", 13, lseek(held, 0, SEEK_CUR));

        int second[most_files];
        probe_equal("bytes before the second message", 0, receive_files(pair[1], text, 1, got));
        probe_equal_text("bytes after the first message", "f", text);
        probe_equal("bytes with the second message", 3, receive_files(pair[1], text, 60, second));
        probe_equal_text("bytes up to the second message", "gh", text);
        expect_text("lost file", "has it", got[0]);
        PROBE_SABOTAGE("twice", lseek(second[1], 1, SEEK_SET));
        probe_equal("offset of the file sent twice", 13, lseek(second[1], 0, SEEK_CUR));
        probe_equal("offset of the file sent twice", 13, lseek(second[2], 0, SEEK_CUR));
        probe_equal("offset of the held file", 13, lseek(second[0], 0, SEEK_CUR));
        probe_equal("bytes after the second message", 0, receive_files(pair[1], text, 60, got));
        probe_equal_text("bytes after the second message", "i", text);
        probe_equal("bytes after all", -1, recv(pair[1], text, 1, MSG_DONTWAIT));
        close_files(2, got);
        probe_equal("descriptors of who is gone", 1, receive_files(left[1], text, 60, got));
        probe_equal_text("bytes of who is gone", "last", text);
        probe_equal("offset of the file sent through another socket", 13,
                    lseek(got[0], 0, SEEK_CUR));
        probe_equal("end of a stream whose sender is gone", 0, read(left[1], text, 1));
        close(got[0]);
        close(left[1]);
        close_files(3, second);
        close_files(2, pair);
        close(held);
    } while (probe_more());
    return probe_pass();
}
