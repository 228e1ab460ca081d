// SPDX-License-Identifier: Apache-2.0
// The remaining end of datagram and packet socket pairs: the other end is closed, and the messages
// it sent wait, with descriptors among them.
#include "passing.h"

static void expect(const char *what, int fd, const char *text)
{
    char got[64] = "";
    struct sockaddr sender;
    socklen_t size = sizeof sender;
    probe_equal(what, (long long)strlen(text),
                recvfrom(fd, got, sizeof got - 1, MSG_DONTWAIT, &sender, &size));
    probe_equal_text(what, text, got);
    probe_equal("name of the sender", 0, size);
}

static void fill(int kind, int pair[2], int pipe_ends[2])
{
    PROBE_TRY(socketpair(AF_UNIX, kind, 0, pair));
    PROBE_TRY(pipe(pipe_ends));
    PROBE_TRY(write(pipe_ends[1], "in the pipe", 11));
    PROBE_TRY(send(pair[0], "first", 5, 0));
    PROBE_TRY(send(pair[0], "", 0, 0));
    send_files(pair[0], "third", 5, 1, pipe_ends);
    PROBE_TRY(send(pair[0], "fourth", 6, 0));
    close_files(2, pipe_ends);
    PROBE_TRY(close(pair[0]));
}

static void check(const char *what, int fd)
{
    char text[16];
    int got[most_files] = {-1};
    expect(what, fd, "first");
    expect(what, fd, "");
    probe_equal("descriptors with the third", 1, receive_files(fd, text, 15, got));
    probe_equal_text(what, "third", text);
    expect_text("pipe", "in the pipe", got[0]);
    close_files(1, got);
    expect(what, fd, "fourth");
}

int main(int argc, char **argv)
{
    probe_start(argc, argv);
    do {
        int datagrams[2], packets[2], empty[2], pipe_ends[2];
        fill(SOCK_DGRAM, datagrams, pipe_ends);
        fill(SOCK_SEQPACKET, packets, pipe_ends);
        PROBE_TRY(socketpair(AF_UNIX, SOCK_DGRAM, 0, empty));
        PROBE_TRY(setsockopt(empty[1], SOL_SOCKET, SO_PASSCRED, &(int){1}, sizeof(int)));
        PROBE_TRY(close(empty[0]));
        probe_ready();
        PROBE_SABOTAGE("datagrams", recv(datagrams[1], (char[8]){0}, 8, 0));
        PROBE_SABOTAGE("packets", recv(packets[1], (char[8]){0}, 8, 0));
        check("datagrams", datagrams[1]);
        probe_equal("behind the last datagram", -1, recv(datagrams[1], pipe_ends, 1, MSG_DONTWAIT));
        probe_equal("error of that", EAGAIN, errno);
        probe_equal("a datagram to nobody", -1, send(datagrams[1], "x", 1, MSG_NOSIGNAL));
        probe_equal("error of that", ECONNREFUSED, errno);
        check("packets", packets[1]);
        probe_equal("a datagram to nobody from the empty one", -1,
                    send(empty[1], "x", 1, MSG_NOSIGNAL));
        probe_equal("error of that", ECONNREFUSED, errno);
        close_files(3, (int[]){datagrams[1], packets[1], empty[1]});
    } while (probe_more());
    return probe_pass();
}
