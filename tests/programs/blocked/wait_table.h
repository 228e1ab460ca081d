// SPDX-License-Identifier: Apache-2.0
//
// A table of timed waits, each tried twice: for a day, which only a signal of the program itself
// ends, and for a moment, which is left to expire.
//
//     static const struct timed_wait waits[] = {{"poll", SYS_poll, by_poll, 0, 0}, …};
//     begin_table(waits, sizeof waits / sizeof waits[0]);
//     probe_ready();
//     check_table(waits, sizeof waits / sizeof waits[0]);
#ifndef CRYO_TESTS_PROGRAMS_BLOCKED_WAIT_TABLE_H
#define CRYO_TESTS_PROGRAMS_BLOCKED_WAIT_TABLE_H

#include "probe.h"

enum { DAY_MS = 86400 * 1000, MOMENT_MS = 1500, LONGEST_MS = 600 * 1000, MOST_WAITS = 16 };

struct timed_wait {
    const char *name;
    long number; // of the system call
    long (*wait)(long number, struct timespec time);
    long over; // its result when the time has expired
    int error; // and errno in that case
};

struct begun_wait {
    const struct timed_wait *which;
    long ms, took_ms;
    struct probe_sleeper sleeper;
};

static struct begun_wait days[MOST_WAITS], moments[MOST_WAITS];

// The clocks advance while the program is saved, and these waits do not.
static inline long now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static inline long do_timed_wait(void *argument)
{
    struct begun_wait *begun = argument;
    const struct timespec time = {.tv_sec = begun->ms / 1000,
                                  .tv_nsec = begun->ms % 1000 * 1000000};
    const long from = now_ms();
    const long result = begun->which->wait(begun->which->number, time);
    begun->took_ms = now_ms() - from;
    return result;
}

static inline void handle_nothing(int number)
{
    (void)number;
}

static inline void end_by_signal(const char *name, struct probe_sleeper *sleeper)
{
    probe_still_asleep(name, sleeper);
    PROBE_ZERO(pthread_kill(sleeper->thread, SIGUSR1));
    probe_woken(name, sleeper, -1, EINTR);
}

// The short waits start last, so that they are still pending when the program is saved.
static inline void begin_table(const struct timed_wait *waits, size_t count)
{
    const struct sigaction action = {.sa_handler = handle_nothing};
    PROBE_TRY(sigaction(SIGUSR1, &action, NULL));
    for (size_t i = 0; i < count; i++) {
        days[i] = (struct begun_wait){.which = &waits[i], .ms = DAY_MS};
        probe_sleep_in(&days[i].sleeper, waits[i].number, do_timed_wait, &days[i]);
    }
    for (size_t i = 0; i < count; i++) {
        moments[i] = (struct begun_wait){.which = &waits[i], .ms = MOMENT_MS};
        probe_sleep(&moments[i].sleeper, do_timed_wait, &moments[i]);
    }
}

// A defect that check_table must notice.
static inline void end_a_day_early(void)
{
    pthread_kill(days[0].sleeper.thread, SIGUSR1);
    probe_await("end", &days[0].sleeper.done);
}

static inline void ask_for_a_longer_moment(void)
{
    probe_await("end", &moments[0].sleeper.done);
    moments[0].ms = LONGEST_MS;
}

static inline void check_table(const struct timed_wait *waits, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        end_by_signal(waits[i].name, &days[i].sleeper);
    }
    for (size_t i = 0; i < count; i++) {
        char what[80];
        snprintf(what, sizeof what, "the moment by %s", waits[i].name);
        probe_woken(what, &moments[i].sleeper, waits[i].over, waits[i].error);
        snprintf(what, sizeof what, "length of the moment by %s, ms", waits[i].name);
        probe_within(what, moments[i].ms, LONGEST_MS, moments[i].took_ms);
    }
}

#endif
