// SPDX-License-Identifier: Apache-2.0
// Timers that only an unreceived message holds (SCM_RIGHTS): what is left of their time, how often
// they have expired, and that they go on.
#include "passing.h"

#include <poll.h>
#include <sys/timerfd.h>

enum { never_set, far_away, repeating, once, timers };

static void await_expiry(int timer)
{
    PROBE_TRY(poll(&(struct pollfd){.fd = timer, .events = POLLIN}, 1, -1));
}

static uint64_t expirations(int timer)
{
    uint64_t count = 0;
    probe_equal("bytes that tell expirations", sizeof count, read(timer, &count, sizeof count));
    return count;
}

int main(int argc, char **argv)
{
    probe_start(argc, argv);
    const struct itimerspec settings[timers] = {
        [far_away] = {.it_value.tv_sec = 1000, .it_interval.tv_sec = 50},
        [repeating] = {.it_value.tv_nsec = 1000000, .it_interval.tv_nsec = 1000000},
        [once] = {.it_value.tv_nsec = 1},
    };
    do {
        int pair[2], made[timers], got[most_files];
        char text[8];
        PROBE_TRY(socketpair(AF_UNIX, SOCK_STREAM, 0, pair));
        for (int i = 0; i < timers; i++) {
            made[i] = (int)PROBE_TRY(timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK));
            PROBE_TRY(timerfd_settime(made[i], 0, &settings[i], NULL));
        }
        await_expiry(made[repeating]);
        await_expiry(made[once]);
        send_files(pair[0], "t", 1, timers, made);
        close_files(timers, made);
        probe_ready();
        probe_equal("timers in the message", timers, receive_files(pair[1], text, 1, got));
        PROBE_SABOTAGE("time left", timerfd_settime(got[far_away], 0, &settings[never_set], NULL));
        PROBE_SABOTAGE("never set", timerfd_settime(got[never_set], 0, &settings[once], NULL);
                       await_expiry(got[never_set]));
        PROBE_SABOTAGE("expired once", timerfd_settime(got[once], 0, &settings[repeating], NULL);
                       await_expiry(got[once]); expirations(got[once]); await_expiry(got[once]));
        struct itimerspec found;
        PROBE_TRY(timerfd_gettime(got[far_away], &found));
        probe_within("time left", 1, 1000, found.it_value.tv_sec);
        probe_equal("its interval", 50, found.it_interval.tv_sec);
        uint64_t count = 0;
        probe_equal("reading of the one that was never set", -1,
                    read(got[never_set], &count, sizeof count));
        probe_equal("why the one that was never set is not read", EAGAIN, errno);
        probe_equal("flags", O_NONBLOCK, PROBE_TRY(fcntl(got[once], F_GETFL)) & O_NONBLOCK);
        probe_equal("expirations of the one that has expired once", 1,
                    (long long)expirations(got[once]));
        PROBE_TRY(timerfd_gettime(got[once], &found));
        probe_equal("time left to the one that has expired once", 0,
                    found.it_value.tv_sec + found.it_value.tv_nsec + found.it_interval.tv_nsec);
        probe_within("expirations of the one that repeats", 1, 1000000000,
                     (long long)expirations(got[repeating]));
        PROBE_SABOTAGE("goes on", timerfd_settime(got[repeating], 0, &settings[far_away], NULL));
        PROBE_TRY(timerfd_gettime(got[repeating], &found));
        probe_equal("interval of the one that goes on", 1000000, found.it_interval.tv_nsec);
        await_expiry(got[repeating]);
        close_files(timers, got);
        close_files(2, pair);
    } while (probe_more());
    return probe_pass();
}
