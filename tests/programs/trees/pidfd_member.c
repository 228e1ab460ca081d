// SPDX-License-Identifier: Apache-2.0
// Pidfds of a child, of a zombie, of a child that was waited for, of oneself and of the parent;
// with flags, a copy, and in an epoll set.
#include "probe.h"

#include <poll.h>
#include <sys/epoll.h>

static const idtype_t by_pidfd = (idtype_t)3; // P_PIDFD, which older libraries do not have

static int to_child[2];

static int pidfd_of(pid_t pid, unsigned flags)
{
    const long fd = syscall(SYS_pidfd_open, pid, flags);
    if (fd < 0 && errno == ENOSYS) {
        probe_lacks("pidfd_open");
    }
    return (int)PROBE_TRY(fd);
}

static int reaches(int fd)
{
    return syscall(SYS_pidfd_send_signal, fd, 0, NULL, 0) == 0 ? 0 : errno;
}

static int has_ended(int fd)
{
    struct pollfd one = {.fd = fd, .events = POLLIN};
    return (int)PROBE_TRY(poll(&one, 1, 0));
}

static void child(void)
{
    char byte;
    close(to_child[1]); // the parent's end tells of itself
    const int parent = pidfd_of(getppid(), 0);
    probe_await_check();
    probe_equal("the parent by the child's pidfd", 0, reaches(parent));
    probe_equal("the parent has ended", 0, has_ended(parent));
    probe_equal("the parent's word", 1, read(to_child[0], &byte, 1));
    _exit(7);
}

static int ended(bool reaped)
{
    siginfo_t info;
    const pid_t pid = PROBE_TRY(fork());
    if (pid == 0) {
        _exit(5);
    }
    const int fd = pidfd_of(pid, 0);
    PROBE_TRY(waitid(P_PID, (id_t)pid, &info, WEXITED | (reaped ? 0 : WNOWAIT)));
    return fd;
}

// Since Linux 6.9 pidfds of the same process, and no others, have the same inode number.
static unsigned long inode(int fd)
{
    struct stat status;
    PROBE_TRY(fstat(fd, &status));
    return status.st_ino;
}

static void watch(int set, int fd)
{
    struct epoll_event event = {.events = EPOLLIN, .data.fd = fd};
    PROBE_TRY(epoll_ctl(set, EPOLL_CTL_ADD, fd, &event));
}

// What the set has to tell of the three, as bits in this order.
static int told(int set, int alive, int zombie, int gone)
{
    struct epoll_event events[3];
    int all = 0;
    for (int i = (int)PROBE_TRY(epoll_wait(set, events, 3, 0)); i-- > 0;) {
        all |= events[i].data.fd == alive ? 1 : events[i].data.fd == zombie ? 2 : 4;
        probe_true("a pidfd of the set", events[i].data.fd == alive ||
                                             events[i].data.fd == zombie ||
                                             events[i].data.fd == gone);
    }
    return all;
}

int main(int argc, char **argv)
{
    probe_start(argc, argv);
    do {
        siginfo_t info = {.si_pid = 0};
        PROBE_TRY(pipe(to_child));
        const pid_t member = probe_fork(child);
        const int alive = pidfd_of(member, O_NONBLOCK);
        const int copy = (int)PROBE_TRY(dup(alive));
        const int zombie = ended(false);
        const int gone = ended(true);
        int ends[2]; // of the same child
        ends[0] = ended(false);
        siginfo_t end_of_child;
        PROBE_TRY(waitid(by_pidfd, (id_t)ends[0], &end_of_child, WEXITED | WNOWAIT));
        ends[1] = pidfd_of(end_of_child.si_pid, 0);
        PROBE_TRY(waitid(by_pidfd, (id_t)ends[0], &end_of_child, WEXITED));
        const bool tells = inode(gone) != inode(ends[0]);
        const int self = pidfd_of(getpid(), 0);
        // PIDFD_THREAD, since Linux 6.9; else -1.
        const int thread = (int)syscall(SYS_pidfd_open, getpid(), O_EXCL);
        const int thread_flags = fcntl(thread, F_GETFL);
        const int set = (int)PROBE_TRY(epoll_create1(0));
        watch(set, alive);
        watch(set, zombie);
        watch(set, gone);
        probe_ready();
        PROBE_SABOTAGE("child", dup2(gone, alive));
        PROBE_SABOTAGE("zombie", PROBE_TRY(waitid(by_pidfd, (id_t)zombie, &info, WEXITED)));
        PROBE_SABOTAGE("both", dup2(alive, ends[1]));
        PROBE_SABOTAGE("set", epoll_ctl(set, EPOLL_CTL_DEL, alive, NULL));
        probe_equal("the child by its pidfd", 0, reaches(alive));
        probe_equal("the child has ended", 0, has_ended(alive));
        probe_equal("flags", O_RDWR | O_NONBLOCK, fcntl(alive, F_GETFL));
        probe_equal("oneself", 0, reaches(self));
        probe_equal("flags of a thread's pidfd", thread_flags, fcntl(thread, F_GETFL));
        probe_equal("the one that was waited for", ESRCH, reaches(gone));
        probe_equal("it has ended", 1, has_ended(gone));
        probe_equal("both of one that has ended", 2, has_ended(ends[0]) + has_ended(ends[1]));
        probe_equal("their numbers", inode(ends[0]), inode(ends[1]));
        probe_true("those of another one", (inode(gone) != inode(ends[0])) == tells);
        probe_equal("the zombie has ended", 1, has_ended(zombie));
        PROBE_TRY(waitid(by_pidfd, (id_t)zombie, &info, WEXITED | WNOWAIT));
        probe_equal("status of the zombie", 5, info.si_status);
        probe_equal("what the set tells", 2 | 4, told(set, alive, zombie, gone));

        PROBE_TRY(write(to_child[1], "x", 1));
        struct pollfd end = {.fd = alive, .events = POLLIN};
        probe_equal("the child's end", 1, PROBE_TRY(poll(&end, 1, 60000)));
        probe_equal("what the set tells then: the child", 1, told(set, alive, zombie, gone) & 1);
        PROBE_TRY(waitid(by_pidfd, (id_t)copy, &info, WEXITED));
        probe_equal("status of the child", 7, info.si_status);
        if (!probe_told("newids")) {
            probe_equal("id of the child", member, info.si_pid);
        }
        PROBE_TRY(waitid(by_pidfd, (id_t)zombie, &info, WEXITED));
        const int all[] = {alive,   copy,   zombie, gone,        self,       ends[0],
                           ends[1], thread, set,    to_child[0], to_child[1]};
        for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
            close(all[i]);
        }
    } while (probe_more());
    return probe_pass();
}
