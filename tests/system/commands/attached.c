// SPDX-License-Identifier: Apache-2.0
// A program that knows nothing of Cryo, and tells when anything was not as it should be.
//
//     attached WHAT     threads: one allocates, one sleeps, one reads, which is the first
//                       tree: what is read passes through a child and comes back
//                       blocks: every thread blocks all signals
//                       alarms: handlers interrupt the first thread all the time
//                       loader: one thread loads and closes a library all the time
//                       busy: the first thread computes with vector registers
//                       filtered: a filter of system calls, which lets all pass
//                       polls, epolls: the first thread waits so, with a time limit
//                       forks: a child that only waits is forked after each line
//
// Says "ready", and "echo LINE" for each line that it reads.
#include <dlfcn.h>
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static volatile int is_over;
static volatile sig_atomic_t alarms;

static void fail(const char *what)
{
    fprintf(stderr, "attached: %s: %s\n", what, strerror(errno));
    _exit(3);
}

static void *allocate(void *none)
{
    void *kept[64] = {NULL};
    for (unsigned i = 0; !is_over; i++) {
        free(kept[i % 64]);
        kept[i % 64] = malloc(16 + i % 5000);
        if (kept[i % 64] == NULL)
            fail("malloc");
        memset(kept[i % 64], (int)i, 16);
    }
    return none;
}

static void *sleep_always(void *none)
{
    while (!is_over) {
        struct timespec left = {0, 20 * 1000 * 1000};
        if (nanosleep(&left, &left) != 0)
            fail("nanosleep");
    }
    return none;
}

static void *load(void *none)
{
#ifndef STATIC // there is no loader then
    while (!is_over) {
        void *library = dlopen("libm.so.6", RTLD_NOW | RTLD_LOCAL);
        if (library == NULL)
            fail("dlopen");
        dlclose(library);
    }
#endif
    return none;
}

static void begin(void *(*what)(void *))
{
    pthread_t thread;
    if (pthread_create(&thread, NULL, what, NULL) != 0)
        fail("pthread_create");
}

static void on_alarm(int signal)
{
    (void)signal;
    alarms = alarms + 1;
}

// Without SA_RESTART: the echo below has to begin its reading anew.
static void begin_alarms(void)
{
    const struct sigaction action = {.sa_handler = on_alarm};
    const struct itimerval often = {{0, 500}, {0, 500}};
    if (sigaction(SIGALRM, &action, NULL) != 0 || setitimer(ITIMER_REAL, &often, NULL) != 0)
        fail("alarms");
}

static void block_all(void)
{
    sigset_t all;
    sigfillset(&all);
    if (pthread_sigmask(SIG_SETMASK, &all, NULL) != 0)
        fail("pthread_sigmask");
}

static void filter_calls(void)
{
    struct sock_filter pass = {BPF_RET | BPF_K, 0, 0, SECCOMP_RET_ALLOW};
    const struct sock_fprog program = {1, &pass};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
        prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0)
        fail("a filter");
}

// The child answers; standard output is its parent's, too.
static void pass_on(void)
{
    int ends[2];
    if (pipe(ends) != 0)
        fail("pipe");
    const pid_t child = fork();
    if (child < 0)
        fail("fork");
    if (child == 0) {
        dup2(ends[0], STDIN_FILENO);
        close(ends[0]);
        close(ends[1]);
        return;
    }
    close(ends[0]);
    char buffer[256];
    ssize_t n;
    while ((n = read(STDIN_FILENO, buffer, sizeof(buffer))) > 0) {
        if (write(ends[1], buffer, (size_t)n) != n)
            fail("write");
    }
    _exit(n < 0 ? 3 : 0);
}

static size_t read_line(char *line, size_t most)
{
    size_t length = 0;
    while (length + 1 < most) {
        const ssize_t n = read(STDIN_FILENO, line + length, 1);
        if (n < 0 && errno == EINTR && alarms != 0)
            continue;
        if (n < 0)
            fail("read");
        if (n == 0)
            return 0;
        if (line[length++] == '\n')
            break;
    }
    line[length] = 0;
    return length;
}

// Sums are compared that the compiler keeps in vector registers.
static void compute_until_input(void)
{
    fd_set input;
    struct timeval none;
    do {
        double sums[8] = {0};
        for (int i = 1; i < 200000; i++)
            for (int j = 0; j < 8; j++)
                sums[j] += (double)(i % 1000) * 0.5;
        for (int j = 1; j < 8; j++)
            if (memcmp(&sums[0], &sums[j], sizeof(sums[0])) != 0)
                fail("the sums differ");
        FD_ZERO(&input);
        FD_SET(STDIN_FILENO, &input);
        none = (struct timeval){0, 0};
    } while (select(1, &input, NULL, NULL, &none) == 0);
}

static const int longest_wait_ms = 600 * 1000;

static void poll_for_input(void)
{
    struct pollfd input = {STDIN_FILENO, POLLIN, 0};
    if (poll(&input, 1, longest_wait_ms) != 1)
        fail("poll");
}

static void await_event(int watch)
{
    struct epoll_event event;
    if (epoll_wait(watch, &event, 1, longest_wait_ms) != 1)
        fail("epoll_wait");
}

static int watch_input(void)
{
    struct epoll_event input = {.events = EPOLLIN};
    const int watch = epoll_create1(EPOLL_CLOEXEC);
    if (watch < 0 || epoll_ctl(watch, EPOLL_CTL_ADD, STDIN_FILENO, &input) != 0)
        fail("epoll");
    return watch;
}

int main(int argc, char **argv)
{
    const char *what = argc > 1 ? argv[1] : "threads";
    const int is_busy = strcmp(what, "busy") == 0;
    const int does_poll = strcmp(what, "polls") == 0;
    const int watch = strcmp(what, "epolls") == 0 ? watch_input() : -1;
    if (strcmp(what, "blocks") == 0)
        block_all();
    if (strcmp(what, "threads") == 0 || strcmp(what, "blocks") == 0) {
        begin(allocate);
        begin(sleep_always);
    } else if (strcmp(what, "loader") == 0) {
        begin(load);
    } else if (strcmp(what, "alarms") == 0) {
        begin_alarms();
    } else if (strcmp(what, "tree") == 0) {
        pass_on();
    } else if (strcmp(what, "filtered") == 0) {
        filter_calls();
    }
    if (write(STDOUT_FILENO, "ready\n", 6) != 6)
        fail("write");
    char line[256] = "echo ";
    for (;;) {
        if (is_busy)
            compute_until_input();
        if (does_poll)
            poll_for_input();
        if (watch >= 0)
            await_event(watch);
        const size_t length = read_line(line + 5, sizeof(line) - 5);
        if (length == 0)
            return 0;
        if (write(STDOUT_FILENO, line, length + 5) != (ssize_t)length + 5)
            fail("write");
        if (strcmp(what, "forks") == 0 && fork() == 0) {
            prctl(PR_SET_PDEATHSIG, SIGKILL);
            while (getppid() != 1)
                pause();
        }
    }
}
