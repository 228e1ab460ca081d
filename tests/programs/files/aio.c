// SPDX-License-Identifier: Apache-2.0
// Contexts of asynchronous I/O (io_setup): one in which a thread waits, and two with events that
// nobody has fetched, in one of them around the end of the ring. All take requests again.
#include "aio.h"

enum { SIZE = 16, FEW = 5, HALF = 100, MANY = 200 };

static int file;
static struct iocb requests[MANY];
static char pieces[MANY][SIZE];

static struct iocb *reading(unsigned i)
{
    requests[i] = (struct iocb){.aio_data = probe_cycle() * MANY + i,
                                .aio_lio_opcode = IOCB_CMD_PREAD,
                                .aio_fildes = (unsigned)file,
                                .aio_buf = (uintptr_t)pieces[i],
                                .aio_nbytes = SIZE,
                                .aio_offset = (long long)i * SIZE};
    memset(pieces[i], 0, SIZE);
    return &requests[i];
}

static void fetch(const char *what, aio_context_t context, unsigned i)
{
    const struct io_event event = aio_fetch(what, context);
    probe_equal("request of an event", (long long)(uintptr_t)&requests[i], (long long)event.obj);
    probe_equal("data of an event", probe_cycle() * MANY + i, (long long)event.data);
    probe_equal("result of an event", SIZE, event.res);
    probe_filled("what a request has read", pieces[i], SIZE, i);
}

// Reads the pieces from FIRST on, and leaves the events where they are.
static struct aio_ring leave(aio_context_t context, unsigned first, unsigned count)
{
    for (unsigned i = first; i < first + count; i++)
        aio_submit(context, reading(i));
    const volatile struct aio_ring *ring = aio_ring(context);
    return (struct aio_ring){.slots = ring->slots, .head = ring->head, .tail = ring->tail};
}

static void fetch_left(const char *what, aio_context_t context, const struct aio_ring *left,
                       unsigned first, unsigned count)
{
    probe_equal(what, left->head, aio_ring(context)->head);
    probe_equal(what, left->tail, aio_ring(context)->tail);
    probe_equal("slots of a ring", left->slots, aio_ring(context)->slots);
    for (unsigned i = first; i < first + count; i++)
        fetch(what, context, i);
    struct io_event none;
    probe_equal("further events", 0, syscall(SYS_io_getevents, context, 0, 1, &none, NULL));
}

static void use_all(aio_context_t context)
{
    struct iocb *all[MANY];
    struct io_event events[MANY];
    for (unsigned i = 0; i < MANY; i++)
        all[i] = reading(i);
    probe_equal("requests at once", MANY, syscall(SYS_io_submit, context, MANY, all));
    probe_equal("their events", MANY, syscall(SYS_io_getevents, context, 0, MANY, events, NULL));
    for (unsigned i = 0; i < MANY; i++)
        probe_filled("what one of many requests has read", pieces[i], SIZE, i);
}

static long await_event(void *context)
{
    struct io_event event;
    return syscall(SYS_io_getevents, *(aio_context_t *)context, 1, 1, &event, NULL);
}

int main(int argc, char **argv)
{
    probe_start(argc, argv);
    file = PROBE_TRY(memfd_create("pieces", MFD_CLOEXEC));
    for (unsigned i = 0; i < MANY; i++) {
        probe_fill(pieces[i], SIZE, i);
        probe_equal("writing", SIZE, write(file, pieces[i], SIZE));
    }
    const aio_context_t gone = aio_open(1); // the kernel's numbers of the others have a gap
    aio_context_t awaited = aio_open(4);
    const aio_context_t turned = aio_open(FEW);
    const aio_context_t large = aio_open(MANY);
    PROBE_TRY(syscall(SYS_io_destroy, gone));
    for (unsigned i = 0; i < aio_ring(turned)->slots - 3; i++) {
        aio_submit(turned, reading(0));
        fetch("turning a ring", turned, 0);
    }
    do {
        struct probe_sleeper sleeper;
        probe_sleep_in(&sleeper, SYS_io_getevents, await_event, &awaited);
        const struct aio_ring few = leave(turned, 0, FEW);
        const struct aio_ring half = leave(large, MANY - HALF, HALF);
        probe_ready();
        PROBE_SABOTAGE("turned", aio_fetch("", turned));
        PROBE_SABOTAGE("large", aio_submit(large, reading(MANY - HALF)));
        PROBE_SABOTAGE("awaited", aio_submit(awaited, reading(FEW));
                       probe_await("awaited", &sleeper.done));
        fetch_left("events of the turned ring", turned, &few, 0, FEW);
        fetch_left("events of the large ring", large, &half, MANY - HALF, HALF);
        probe_still_asleep("thread at the awaited context", &sleeper);
        aio_submit(awaited, reading(FEW));
        probe_woken("thread at the awaited context", &sleeper, 1, 0);
        use_all(large);
    } while (probe_more());
    return probe_pass();
}
