// SPDX-License-Identifier: Apache-2.0
//
// An io_uring ring, by raw system calls.
//
//     struct ring ring;
//     if (!ring_open(&ring))
//         probe_lacks("io_uring");
//     ring_read_by_worker(&ring);   // leaves a kernel worker thread behind
//     ring_close(&ring);
#ifndef CRYO_TESTS_PROGRAMS_RING_H
#define CRYO_TESTS_PROGRAMS_RING_H

#include "probe.h"

#include <linux/io_uring.h>

struct ring {
    int fd;
    struct io_uring_params about;
    unsigned char *rings;
    size_t rings_size;
    struct io_uring_sqe *entries;
    size_t entries_size;
};

static inline bool ring_open(struct ring *ring)
{
    memset(ring, 0, sizeof(*ring));
    ring->fd = (int)syscall(SYS_io_uring_setup, 4, &ring->about);
    if (ring->fd < 0)
        return false;
    const struct io_uring_params *about = &ring->about;
    ring->rings_size = about->sq_off.array + about->sq_entries * sizeof(unsigned);
    const size_t completions = about->cq_off.cqes + about->cq_entries * sizeof(struct io_uring_cqe);
    if (ring->rings_size < completions)
        ring->rings_size = completions;
    ring->entries_size = about->sq_entries * sizeof(*ring->entries);
    ring->rings = PROBE_MAP(mmap(NULL, ring->rings_size, PROT_READ | PROT_WRITE, MAP_SHARED,
                                 ring->fd, IORING_OFF_SQ_RING));
    ring->entries = PROBE_MAP(mmap(NULL, ring->entries_size, PROT_READ | PROT_WRITE, MAP_SHARED,
                                   ring->fd, IORING_OFF_SQES));
    return true;
}

/* Reads some of the program's file, which a kernel worker has to do. */
static inline void ring_read_by_worker(struct ring *ring)
{
    static unsigned char text[4096];
    const int file = (int)PROBE_TRY(open("/proc/self/exe", O_RDONLY));
    unsigned *tail = (unsigned *)(void *)(ring->rings + ring->about.sq_off.tail);
    const unsigned at = *tail & (ring->about.sq_entries - 1);
    memset(&ring->entries[at], 0, sizeof(ring->entries[at]));
    ring->entries[at].opcode = IORING_OP_READ;
    ring->entries[at].flags = IOSQE_ASYNC;
    ring->entries[at].fd = file;
    ring->entries[at].addr = (uintptr_t)text;
    ring->entries[at].len = sizeof(text);
    ((unsigned *)(void *)(ring->rings + ring->about.sq_off.array))[at] = at;
    __atomic_store_n(tail, *tail + 1, __ATOMIC_RELEASE);
    probe_equal("entering the ring", 1,
                syscall(SYS_io_uring_enter, ring->fd, 1, 1, IORING_ENTER_GETEVENTS, NULL, 0));
    unsigned *head = (unsigned *)(void *)(ring->rings + ring->about.cq_off.head);
    const struct io_uring_cqe *done =
        (struct io_uring_cqe *)(void *)(ring->rings + ring->about.cq_off.cqes);
    probe_equal("what was read", sizeof(text), done[*head & (ring->about.cq_entries - 1)].res);
    __atomic_store_n(head, *head + 1, __ATOMIC_RELEASE);
    PROBE_TRY(close(file));
}

static inline void ring_close(struct ring *ring)
{
    PROBE_TRY(munmap(ring->rings, ring->rings_size));
    PROBE_TRY(munmap(ring->entries, ring->entries_size));
    PROBE_TRY(close(ring->fd));
}

#endif
