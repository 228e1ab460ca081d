// SPDX-License-Identifier: Apache-2.0
// Socket pairs within the process: waiting data, packet boundaries, ends shut down or closed.
#include "probe.h"

#include <sys/socket.h>

static void expect(const char *what, int fd, const char *text)
{
    char got[64] = "";
    probe_equal(what, (long long)strlen(text), recv(fd, got, sizeof got - 1, MSG_DONTWAIT));
    probe_equal_text(what, text, got);
}

int main(int argc, char **argv)
{
    probe_start(argc, argv);
    int stream[2], datagram[2], packet[2], half[2], gone[2];
    PROBE_TRY(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, stream));
    PROBE_TRY(socketpair(AF_UNIX, SOCK_DGRAM, 0, datagram));
    PROBE_TRY(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, packet));
    PROBE_TRY(setsockopt(datagram[0], SOL_SOCKET, SO_PASSCRED, &(int){1}, sizeof(int)));
    do {
        PROBE_TRY(socketpair(AF_UNIX, SOCK_STREAM, 0, half));
        PROBE_TRY(socketpair(AF_UNIX, SOCK_STREAM, 0, gone));
        PROBE_TRY(write(stream[0], "to the right", 12));
        PROBE_TRY(write(stream[1], "to the left", 11));
        PROBE_TRY(write(datagram[1], "first", 5));
        PROBE_TRY(write(datagram[1], "", 0));
        PROBE_TRY(write(datagram[1], "third", 5));
        PROBE_TRY(write(packet[0], "one", 3));
        PROBE_TRY(write(packet[0], "two", 3));
        PROBE_TRY(write(half[0], "last words", 10));
        PROBE_TRY(shutdown(half[0], SHUT_WR));
        PROBE_TRY(write(gone[0], "farewell", 8));
        PROBE_TRY(close(gone[0]));
        probe_ready();
        PROBE_SABOTAGE("stream", recv(stream[0], (char[4]){0}, 4, 0));
        PROBE_SABOTAGE("packets", recv(packet[1], (char[4]){0}, 4, 0));
        PROBE_SABOTAGE("half closed", shutdown(half[1], SHUT_RDWR));
        expect("stream to the right", stream[1], "to the right");
        expect("stream to the left", stream[0], "to the left");
        probe_equal("flags of the stream", O_NONBLOCK, fcntl(stream[0], F_GETFL) & O_NONBLOCK);
        expect("first datagram", datagram[0], "first");
        expect("empty datagram", datagram[0], "");
        expect("third datagram", datagram[0], "third");
        expect("one of the packets", packet[1], "one");
        expect("two of the packets", packet[1], "two");
        expect("half closed: what was sent", half[1], "last words");
        expect("half closed: the end", half[1], "");
        probe_equal("half closed: the other direction", 2, send(half[1], "ok", 2, MSG_NOSIGNAL));
        expect("half closed: the answer", half[0], "ok");
        probe_equal("half closed: writing", -1, send(half[0], "x", 1, MSG_NOSIGNAL));
        expect("closed at the other end: what was sent", gone[1], "farewell");
        expect("closed at the other end: the end", gone[1], "");
        int passes = 0;
        socklen_t size = sizeof passes;
        PROBE_TRY(getsockopt(datagram[0], SOL_SOCKET, SO_PASSCRED, &passes, &size));
        probe_equal("option of a datagram socket", 1, passes);
        PROBE_TRY(close(half[0]));
        PROBE_TRY(close(half[1]));
        PROBE_TRY(close(gone[1]));
    } while (probe_more());
    return probe_pass();
}
