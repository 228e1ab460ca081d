/* SPDX-License-Identifier: Apache-2.0 */
/* A thread whose stacks lie within a large mapping, with other memory before and behind them; and
 * threads that write to the process from outside. */
#include "changes.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

unsigned char *aside;

static int to_aside[2], from_aside[2];

/* Each order changes the stack; the signal stack is registered, but no handler here uses it. */
static void *stand_aside(void *stack_for_signals)
{
    unsigned char on_stack[few * page];
    uint64_t seed;
    const stack_t other = {.ss_sp = stack_for_signals, .ss_size = 16 * (size_t)page};
    need(sigaltstack(&other, NULL) == 0, "sigaltstack");
    aside = on_stack;
    for (;;) {
        ssize_t n = read(to_aside[0], &seed, sizeof(seed));
        if (n < 0 && errno == EINTR)
            continue;
        if (n != sizeof(seed))
            return NULL;
        fill(on_stack, few, seed);
        need(write(from_aside[1], &seed, sizeof(seed)) == sizeof(seed), "write");
    }
}

void by_thread_aside(uint64_t seed)
{
    if (aside == NULL) {
        const size_t much = 4096, size = 64 * (size_t)page;
        unsigned char *memory = map(much, MAP_PRIVATE | MAP_ANONYMOUS);
        fill(memory, much, 8);
        pthread_attr_t attributes;
        pthread_t thread;
        need(pipe(to_aside) == 0 && pipe(from_aside) == 0, "pipe");
        pthread_attr_init(&attributes);
        pthread_attr_setstack(&attributes, memory + much / 2 * page, size);
        need(pthread_create(&thread, &attributes, stand_aside, memory + much / 4 * page) == 0,
             "pthread_create");
    }
    need(write(to_aside[1], &seed, sizeof(seed)) == sizeof(seed), "write");
    ssize_t n;
    do {
        n = read(from_aside[0], &seed, sizeof(seed));
    } while (n < 0 && errno == EINTR);
    need(n == sizeof(seed), "read");
}

/* All the time, in long calls, to memory that no checksum includes. */
static void *write_to_itself(void *by_number)
{
    const size_t much = 1024;
    struct iovec from = {map(much, MAP_PRIVATE | MAP_ANONYMOUS), much * (size_t)page};
    struct iovec to = {map(much, MAP_PRIVATE | MAP_ANONYMOUS), much * (size_t)page};
    fill(from.iov_base, much, 9);
    for (;;) {
        if (by_number != NULL)
            syscall(SYS_process_vm_writev, getpid(), &from, 1UL, &to, 1UL, 0UL);
        else
            process_vm_writev(getpid(), &from, 1, &to, 1, 0);
    }
    return NULL;
}

/* By several threads, so that one at least is in such a call at any moment. */
void write_for_ever(void)
{
    static int by_number;
    for (int i = 0; i < 4; i++) {
        pthread_t thread;
        need(pthread_create(&thread, NULL, write_to_itself, i % 2 != 0 ? &by_number : NULL) == 0,
             "pthread_create");
    }
}
