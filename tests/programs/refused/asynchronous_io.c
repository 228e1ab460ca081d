// SPDX-License-Identifier: Apache-2.0
// A request of asynchronous I/O that is under way for ever, and events that nobody has fetched:
// these stay where they are when the checkpoint looks whether there are such requests.
#include "aio.h"

#include <poll.h>

enum { FINISHED = 3 };

int main(int argc, char **argv)
{
    probe_start(argc, argv);
    int ends[2];
    PROBE_TRY(pipe(ends));
    const aio_context_t context = aio_open(8);
    struct iocb waiting = {.aio_data = 99,
                           .aio_lio_opcode = IOCB_CMD_POLL,
                           .aio_fildes = (unsigned)ends[0],
                           .aio_buf = POLLIN};
    aio_submit(context, &waiting);
    char byte = 'x';
    struct iocb writing = {.aio_lio_opcode = IOCB_CMD_PWRITE,
                           .aio_fildes = (unsigned)PROBE_TRY(memfd_create("written", MFD_CLOEXEC)),
                           .aio_buf = (uintptr_t)&byte,
                           .aio_nbytes = 1};
    struct io_event event;
    do {
        for (unsigned i = 0; i < FINISHED; i++) {
            writing.aio_data = i;
            aio_submit(context, &writing);
        }
        const unsigned head = aio_ring(context)->head;
        const unsigned tail = aio_ring(context)->tail;
        probe_ready();
        PROBE_SABOTAGE("context", syscall(SYS_io_destroy, context));
        probe_equal("the context", 0, syscall(SYS_io_getevents, context, 0, 0, &event, NULL));
        probe_equal("head of the ring", head, aio_ring(context)->head);
        probe_equal("tail of the ring", tail, aio_ring(context)->tail);
        for (unsigned i = 0; i < FINISHED; i++)
            probe_equal("data of an event", i, (long long)aio_fetch("an event", context).data);
        probe_equal("further events", 0, syscall(SYS_io_getevents, context, 0, 1, &event, NULL));
    } while (probe_more());
    PROBE_TRY(write(ends[1], "x", 1));
    probe_equal("the event of what was under way", 1,
                syscall(SYS_io_getevents, context, 1, 1, &event, NULL));
    return probe_pass();
}
