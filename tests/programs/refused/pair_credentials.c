// SPDX-License-Identifier: Apache-2.0
// A datagram in the remaining end of a pair whose receiver has asked for the sender's id.
#include "probe.h"

#include <sys/socket.h>

int main(int argc, char **argv)
{
    probe_start(argc, argv);
    do {
        int pair[2];
        PROBE_TRY(socketpair(AF_UNIX, SOCK_DGRAM, 0, pair));
        PROBE_TRY(setsockopt(pair[1], SOL_SOCKET, SO_PASSCRED, &(int){1}, sizeof(int)));
        PROBE_TRY(send(pair[0], "mine", 4, 0));
        PROBE_TRY(close(pair[0]));
        probe_ready();
        PROBE_SABOTAGE("datagram", recv(pair[1], (char[4]){0}, 4, 0));
        char text[8] = "";
        union {
            struct cmsghdr header;
            char room[CMSG_SPACE(sizeof(struct ucred))];
        } control = {0};
        struct iovec part = {.iov_base = text, .iov_len = sizeof text - 1};
        struct msghdr message = {.msg_iov = &part,
                                 .msg_iovlen = 1,
                                 .msg_control = &control,
                                 .msg_controllen = sizeof control};
        probe_equal("bytes of the datagram", 4, recvmsg(pair[1], &message, MSG_DONTWAIT));
        probe_equal("kind of what came with it", SCM_CREDENTIALS, control.header.cmsg_type);
        struct ucred who;
        memcpy(&who, CMSG_DATA(&control.header), sizeof who);
        probe_equal("process that has sent it", getpid(), who.pid);
        PROBE_TRY(close(pair[1]));
    } while (probe_more());
    return probe_pass();
}
