// SPDX-License-Identifier: Apache-2.0
//
// Asynchronous I/O of the kernel, by raw system calls.
//
//     aio_context_t context = aio_open(4);
//     aio_submit(context, &request);
//     struct io_event event = aio_fetch("reading", context);
#ifndef CRYO_TESTS_PROGRAMS_AIO_H
#define CRYO_TESTS_PROGRAMS_AIO_H

#include "probe.h"

#include <linux/aio_abi.h>

// As the kernel maps it: its address is the context's id.
struct aio_ring {
    unsigned number, slots, head, tail;
};

static inline const volatile struct aio_ring *aio_ring(aio_context_t context)
{
    return (const volatile struct aio_ring *)(uintptr_t)context;
}

static inline aio_context_t aio_open(unsigned requests)
{
    aio_context_t context = 0;
    if (syscall(SYS_io_setup, requests, &context) != 0)
        probe_lacks("io_setup");
    return context;
}

static inline void aio_submit(aio_context_t context, struct iocb *request)
{
    probe_equal("submitting to a context", 1, syscall(SYS_io_submit, context, 1, &request));
}

// The next event, which must be there already.
static inline struct io_event aio_fetch(const char *what, aio_context_t context)
{
    struct io_event event = {0};
    probe_equal(what, 1, syscall(SYS_io_getevents, context, 0, 1, &event, NULL));
    return event;
}

#endif
