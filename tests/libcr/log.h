/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a program says in its log, for its test; and checks, whose failures are said there.
 *
 *     log_fd = open(...);
 *     say("result", result);
 *     FAILS(cr_enter_cs(-1), EINVAL);
 *     return wrong;
 */
#ifndef CRYO_TESTS_LIBCR_LOG_H
#define CRYO_TESTS_LIBCR_LOG_H

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static int log_fd;
static int wrong;

static inline void say(const char *what, long number)
{
    char line[128];
    const int size = snprintf(line, sizeof(line), "%s %ld\n", what, number);
    if (write(log_fd, line, (size_t)size) != size)
        abort();
}

static inline void check(int ok, int line)
{
    if (!ok) {
        const int error = errno;
        say("wrong at line", line);
        say("errno", error);
        wrong = 1;
    }
}

#define CHECK(condition) check((condition), __LINE__)
#define FAILS(call, code) (errno = 0, CHECK((call) == -1 && errno == (code)))

#endif
