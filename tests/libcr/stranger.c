/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Listens where an agent would, and answers in words that are none of ours:
 *
 *     stranger READY
 *
 * READY exists when it listens.
 */
#define _GNU_SOURCE /* SOCK_CLOEXEC */
#include <fcntl.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

static void ignore(int signal)
{
    (void)signal;
}

int main(int argc, char **argv)
{
    static const char answer[64] = "none of ours";
    static char question[8192];
    const struct sigaction action = {.sa_handler = ignore};
    struct sockaddr_un place = {.sun_family = AF_UNIX};
    char space[64] = "";
    const int listener = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    if (argc != 2 || readlink("/proc/self/ns/pid", space, sizeof(space) - 1) < 0)
        return 2;
    const int size = snprintf(place.sun_path + 1, sizeof(place.sun_path) - 1, "cryo.%s.%d", space,
                              (int)getpid());
    const socklen_t length = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)size);
    if (sigaction(SIGRTMAX, &action, NULL) != 0 ||
        bind(listener, (const struct sockaddr *)&place, length) != 0 || listen(listener, 1) != 0)
        return 1;
    close(open(argv[1], O_WRONLY | O_CREAT, 0600));
    for (;;) {
        const int peer = accept(listener, NULL, NULL);
        if (peer < 0)
            continue;
        if (recv(peer, question, sizeof(question), 0) > 0 &&
            send(peer, answer, sizeof(answer), MSG_NOSIGNAL) > 0)
            while (recv(peer, question, sizeof(question), 0) > 0)
                ;
        close(peer);
    }
}
