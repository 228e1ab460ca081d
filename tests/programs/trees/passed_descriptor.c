// SPDX-License-Identifier: Apache-2.0
// Descriptors in flight through a UNIX socket (SCM_RIGHTS): one that only the message holds.
#include "probe.h"

#include <sys/socket.h>

union control {
    struct cmsghdr header;
    char room[CMSG_SPACE(sizeof(int))];
};

static int pair[2];

static void send_descriptor(int fd)
{
    union control control = {0};
    struct iovec byte = {.iov_base = (char[]){'d'}, .iov_len = 1};
    struct msghdr message = {.msg_iov = &byte,
                             .msg_iovlen = 1,
                             .msg_control = &control,
                             .msg_controllen = sizeof control};
    control.header = (struct cmsghdr){
        .cmsg_len = CMSG_LEN(sizeof fd), .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS};
    memcpy(CMSG_DATA(&control.header), &fd, sizeof fd);
    PROBE_TRY(sendmsg(pair[0], &message, 0));
}

static void receiver(void)
{
    close(pair[0]);
    probe_await_check();
    union control control = {0};
    char byte = 0, got[16] = "";
    struct iovec room = {.iov_base = &byte, .iov_len = 1};
    struct msghdr message = {.msg_iov = &room,
                             .msg_iovlen = 1,
                             .msg_control = &control,
                             .msg_controllen = sizeof control};
    PROBE_TRY(recvmsg(pair[1], &message, 0));
    probe_equal("byte beside the descriptor", 'd', byte);
    probe_equal("kind of the control message", SCM_RIGHTS, control.header.cmsg_type);
    int fd;
    memcpy(&fd, CMSG_DATA(&control.header), sizeof fd);
    PROBE_SABOTAGE("descriptor", lseek(fd, 0, SEEK_SET));
    probe_equal("offset of the passed descriptor", 3, lseek(fd, 0, SEEK_CUR));
    probe_equal("reading the passed descriptor", 4, read(fd, got, sizeof got));
    probe_equal_text("what it read", "file", got);
}

int main(int argc, char **argv)
{
    probe_start(argc, argv);
    do {
        PROBE_TRY(socketpair(AF_UNIX, SOCK_STREAM, 0, pair));
        int fd = PROBE_TRY(open(probe_path("file"), O_CREAT | O_RDWR | O_TRUNC, 0600));
        PROBE_TRY(write(fd, "my file", 7));
        PROBE_TRY(lseek(fd, 3, SEEK_SET));
        const pid_t member = probe_fork(receiver);
        send_descriptor(fd);
        close(fd);
        probe_ready();
        probe_reap("receiver", member);
        close(pair[0]);
        close(pair[1]);
    } while (probe_more());
    return probe_pass();
}
