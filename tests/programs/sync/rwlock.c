// SPDX-License-Identifier: Apache-2.0
// Read-write locks: two readers inside and a writer waiting; a writer inside and a reader waiting.
#include "probe.h"

static pthread_rwlock_t read_held = PTHREAD_RWLOCK_INITIALIZER;
static pthread_rwlock_t write_held = PTHREAD_RWLOCK_INITIALIZER;

static long write_lock(void *unused)
{
    (void)unused;
    const int error = pthread_rwlock_wrlock(&read_held);
    return error != 0 ? error : pthread_rwlock_unlock(&read_held);
}

static long read_lock(void *unused)
{
    (void)unused;
    const int error = pthread_rwlock_rdlock(&write_held);
    return error != 0 ? error : pthread_rwlock_unlock(&write_held);
}

int main(int argc, char **argv)
{
    probe_start(argc, argv);
    do {
        struct probe_sleeper writer, reader;
        PROBE_ZERO(pthread_rwlock_rdlock(&read_held));
        PROBE_ZERO(pthread_rwlock_rdlock(&read_held));
        PROBE_ZERO(pthread_rwlock_wrlock(&write_held));
        probe_sleep_in(&writer, SYS_futex, write_lock, NULL);
        probe_sleep_in(&reader, SYS_futex, read_lock, NULL);
        probe_ready();
        PROBE_SABOTAGE("writer", pthread_rwlock_unlock(&read_held);
                       pthread_rwlock_unlock(&read_held);
                       probe_await("end of the writer", &writer.done));
        probe_still_asleep("waiting writer", &writer);
        probe_still_asleep("waiting reader", &reader);
        probe_equal("locking twice for writing", EDEADLK, pthread_rwlock_wrlock(&write_held));
        PROBE_ZERO(pthread_rwlock_unlock(&read_held));
        probe_still_asleep("writer while one reader is inside", &writer);
        PROBE_ZERO(pthread_rwlock_unlock(&read_held));
        PROBE_ZERO(pthread_rwlock_unlock(&write_held));
        probe_woken("writer", &writer, 0, 0);
        probe_woken("reader", &reader, 0, 0);
    } while (probe_more());
    return probe_pass();
}
