// SPDX-License-Identifier: Apache-2.0
// Descriptors in flight through sockets that keep packet boundaries: of several kinds, held only by
// a packet.
#include "passing.h"

#include <sys/eventfd.h>

static void through(int kind)
{
    int pair[2], pipe_ends[2], between[2], got[most_files];
    char text[64];
    PROBE_TRY(socketpair(AF_UNIX, kind, 0, pair));
    PROBE_TRY(socketpair(AF_UNIX, SOCK_STREAM, 0, between));
    PROBE_TRY(pipe(pipe_ends));
    PROBE_TRY(write(pipe_ends[1], "in the pipe", 11));
    PROBE_TRY(write(between[0], "between", 7));
    PROBE_TRY(write(between[1], "back", 4));
    const int unlinked = new_file("unlinked", "no name", 3);
    PROBE_TRY(unlink(probe_path("unlinked")));
    const int memory = (int)PROBE_TRY(memfd_create("passed", 0));
    PROBE_TRY(write(memory, "memory", 6));
    const int counter = (int)PROBE_TRY(eventfd(42, EFD_NONBLOCK));
    const int directory = (int)PROBE_TRY(open(probe_path("."), O_RDONLY | O_DIRECTORY));

    PROBE_TRY(send(pair[0], "first", 5, 0));
    send_files(pair[0], "second", 6, 2, (int[]){unlinked, memory});
    PROBE_TRY(send(pair[0], "third", 5, 0));
    send_files(pair[0], "fourth", 6, 4, (int[]){pipe_ends[1], between[1], counter, directory});
    PROBE_TRY(close(unlinked));
    PROBE_TRY(close(memory));
    PROBE_TRY(close(counter));
    PROBE_TRY(close(directory));
    PROBE_TRY(close(pipe_ends[1]));
    PROBE_TRY(close(between[1]));
    probe_ready();

    PROBE_SABOTAGE("packet", receive_files(pair[1], text, 60, got));
    probe_equal("descriptors with the first packet", 0, receive_files(pair[1], text, 60, got));
    probe_equal_text("first packet", "first", text);
    probe_equal("descriptors with the second packet", 2, receive_files(pair[1], text, 60, got));
    probe_equal_text("second packet", "second", text);
    PROBE_SABOTAGE("unlinked", lseek(got[0], 0, SEEK_SET));
    expect_text("unlinked file", "name", got[0]);
    probe_equal("position in the memory file", 6, lseek(got[1], 0, SEEK_CUR));
    PROBE_TRY(lseek(got[1], 0, SEEK_SET));
    expect_text("memory file", "memory", got[1]);
    close_files(2, got);
    probe_equal("descriptors with the third packet", 0, receive_files(pair[1], text, 60, got));
    probe_equal_text("third packet", "third", text);
    probe_equal("descriptors with the fourth packet", 4, receive_files(pair[1], text, 60, got));
    probe_equal_text("fourth packet", "fourth", text);

    PROBE_TRY(write(got[0], ", and more", 10));
    expect_text("pipe", "in the pipe, and more", pipe_ends[0]);
    expect_text("socket on its way", "between", got[1]);
    expect_text("other end of the socket on its way", "back", between[0]);
    PROBE_TRY(write(between[0], "again", 5));
    expect_text("socket on its way, once more", "again", got[1]);
    uint64_t count = 0;
    PROBE_SABOTAGE("counter", count = 1; PROBE_TRY(write(got[2], &count, sizeof count)));
    PROBE_TRY(read(got[2], &count, sizeof count));
    probe_equal("counter", 42, (long long)count);
    struct stat status;
    PROBE_TRY(fstat(got[3], &status));
    probe_true("directory", S_ISDIR(status.st_mode));
    close_files(4, got);
    probe_equal("bytes left in the pipe", 0, read(pipe_ends[0], text, sizeof text));
    probe_equal("bytes left between", 0, read(between[0], text, sizeof text));
    close(pipe_ends[0]);
    close(between[0]);
    close_files(2, pair);
}

int main(int argc, char **argv)
{
    probe_start(argc, argv);
    do {
        through(probe_cycle() % 2 == 1 ? SOCK_DGRAM : SOCK_SEQPACKET);
    } while (probe_more());
    return probe_pass();
}
