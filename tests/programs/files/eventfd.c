// SPDX-License-Identifier: Apache-2.0
// eventfd: the counter, and semaphore mode.
#include "probe.h"

#include <sys/eventfd.h>

int main(int argc, char **argv)
{
    probe_start(argc, argv);
    int counter = PROBE_TRY(eventfd(0, EFD_NONBLOCK));
    int semaphore = PROBE_TRY(eventfd(0, EFD_NONBLOCK | EFD_SEMAPHORE));
    eventfd_t value;
    do {
        PROBE_TRY(eventfd_write(counter, 0x123456789a));
        PROBE_TRY(eventfd_write(semaphore, 2));
        probe_ready();
        PROBE_SABOTAGE("counter", eventfd_write(counter, 1));
        PROBE_SABOTAGE("semaphore", eventfd_read(semaphore, &value));
        PROBE_TRY(eventfd_read(counter, &value));
        probe_equal("value of the counter", 0x123456789a, (long long)value);
        for (int i = 0; i < 2; i++) {
            probe_equal("taking the semaphore", 0, eventfd_read(semaphore, &value));
            probe_equal("value of the semaphore", 1, (long long)value);
        }
        probe_equal("the semaphore when used up", -1, eventfd_read(semaphore, &value));
        probe_equal("errno of it", EAGAIN, errno);
    } while (probe_more());
    return probe_pass();
}
