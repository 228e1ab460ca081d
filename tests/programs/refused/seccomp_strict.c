// SPDX-License-Identifier: Apache-2.0
// A child and a thread in seccomp's strict mode, which are killed by any system call but read,
// write and exit: a checkpoint leaves them alone.
#include "probe.h"

#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/socket.h>

// Answers every byte with its successor, until end of file.
static void answer(int socket)
{
    PROBE_TRY(prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT, 0, 0, 0));
    for (unsigned char byte; read(socket, &byte, 1) == 1;) {
        byte++;
        if (write(socket, &byte, 1) != 1) {
            break;
        }
    }
    syscall(SYS_exit, 0);
}

static void *run(void *socket)
{
    answer(*(int *)socket);
    return NULL;
}

static void ask(const char *who, int socket)
{
    unsigned char byte = 7;
    probe_equal(who, 1, write(socket, &byte, 1));
    probe_equal(who, 1, read(socket, &byte, 1));
    probe_equal(who, 8, byte);
}

int main(int argc, char **argv)
{
    probe_start(argc, argv);
    int child[2], thread[2];
    PROBE_TRY(socketpair(AF_UNIX, SOCK_STREAM, 0, child));
    PROBE_TRY(socketpair(AF_UNIX, SOCK_STREAM, 0, thread));
    signal(SIGPIPE, SIG_IGN);
    const pid_t pid = PROBE_TRY(fork());
    if (pid == 0) {
        PROBE_TRY(close(child[0]));
        answer(child[1]);
    }
    PROBE_TRY(close(child[1]));
    pthread_t id;
    PROBE_ZERO(pthread_create(&id, NULL, run, &thread[1]));
    ask("answer of the child", child[0]);
    ask("answer of the thread", thread[0]);
    do {
        probe_ready();
        PROBE_SABOTAGE("child", (kill(pid, SIGKILL), waitpid(pid, NULL, 0)));
        ask("answer of the child", child[0]);
        ask("answer of the thread", thread[0]);
    } while (probe_more());
    PROBE_TRY(close(child[0]));
    PROBE_TRY(shutdown(thread[0], SHUT_RDWR));
    PROBE_TRY(waitpid(pid, NULL, 0));
    PROBE_ZERO(pthread_join(id, NULL));
    return probe_pass();
}
