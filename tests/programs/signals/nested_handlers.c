// SPDX-License-Identifier: Apache-2.0
// A handler interrupted by another handler while the program is ready: masks inside, and both
// returns, one by return and one by siglongjmp.
#include "probe.h"

#include <setjmp.h>

static volatile int depth, returned;
static sigjmp_buf out;

static void blocked(const char *what, int number, int expected)
{
    sigset_t mask;
    PROBE_TRY(sigprocmask(SIG_BLOCK, NULL, &mask));
    probe_equal(what, expected, sigismember(&mask, number));
}

static void inner(int number)
{
    depth = 2;
    probe_ready();
    sigset_t none;
    sigemptyset(&none);
    PROBE_SABOTAGE("blocked", sigprocmask(SIG_SETMASK, &none, NULL));
    blocked("outer signal blocked in the inner handler", SIGUSR1, 1);
    blocked("inner signal blocked in its handler", number, 1);
    blocked("signal blocked by sa_mask", SIGHUP, 1);
    depth = 1;
}

static void outer(int number)
{
    PROBE_TRY(raise(SIGUSR2));
    probe_equal("depth after the inner handler", 1, depth);
    blocked("inner signal blocked after its handler", SIGUSR2, 0);
    blocked("outer signal blocked in its handler", number, 1);
    returned = 1;
    siglongjmp(out, 5);
}

int main(int argc, char **argv)
{
    probe_start(argc, argv);
    struct sigaction action = {.sa_handler = outer};
    PROBE_TRY(sigaction(SIGUSR1, &action, NULL));
    action.sa_handler = inner;
    sigaddset(&action.sa_mask, SIGHUP);
    PROBE_TRY(sigaction(SIGUSR2, &action, NULL));
    do {
        returned = 0;
        const int jumped = sigsetjmp(out, 1);
        if (jumped == 0) {
            PROBE_TRY(raise(SIGUSR1));
        }
        probe_equal("siglongjmp out of the handler", 5, jumped);
        probe_equal("return of the inner handler", 1, returned);
        blocked("outer signal blocked after the jump", SIGUSR1, 0);
    } while (probe_more());
    return probe_pass();
}
