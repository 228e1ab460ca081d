/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Listens where an agent would, and answers in another protocol:
 *
 *     stranger READY
 *
 * READY exists when it listens.
 */
#define _GNU_SOURCE /* SOCK_CLOEXEC, O_PATH */
#include <fcntl.h>
#include <signal.h>
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
    const int listener = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    if (argc != 2)
        return 2;
    snprintf(place.sun_path, sizeof(place.sun_path), "/tmp/cryo.%d.%016x", (int)getpid(),
             (unsigned)getpid());
    if (sigaction(SIGRTMAX, &action, NULL) != 0 ||
        bind(listener, (const struct sockaddr *)&place, sizeof(place)) != 0 ||
        open(place.sun_path, O_PATH) < 0 || unlink(place.sun_path) != 0 || listen(listener, 1) != 0)
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
