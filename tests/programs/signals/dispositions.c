// SPDX-License-Identifier: Apache-2.0
// The disposition of every signal: handler, flags and mask.
#include "probe.h"

enum { SA_RESTORER_FLAG = 0x04000000 }; // set by the library, for itself

static void one(int number)
{
    (void)number;
}

static void two(int number, siginfo_t *info, void *context)
{
    (void)number, (void)info, (void)context;
}

// The last real-time signal may be the checkpointer's own.
static bool may_be_changed(int number)
{
    return number != SIGKILL && number != SIGSTOP && (number < 32 || number >= SIGRTMIN) &&
           number < SIGRTMAX;
}

static struct sigaction chosen(int number)
{
    struct sigaction action = {0};
    switch (number % 4) {
    case 0:
        action.sa_handler = SIG_IGN;
        break;
    case 1:
        action.sa_handler = one;
        action.sa_flags = SA_RESTART | SA_NODEFER;
        break;
    case 2:
        action.sa_sigaction = two;
        action.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_RESETHAND;
        break;
    default:
        action.sa_handler = SIG_DFL;
        action.sa_flags = number == SIGCHLD ? SA_NOCLDWAIT : 0;
        break;
    }
    sigemptyset(&action.sa_mask);
    sigaddset(&action.sa_mask, number % 30 + 1);
    sigaddset(&action.sa_mask, SIGRTMIN + number % 20);
    sigdelset(&action.sa_mask, SIGKILL);
    sigdelset(&action.sa_mask, SIGSTOP);
    return action;
}

int main(int argc, char **argv)
{
    probe_start(argc, argv);
    for (int number = 1; number <= SIGRTMAX; number++) {
        const struct sigaction action = chosen(number);
        if (may_be_changed(number)) {
            PROBE_TRY(sigaction(number, &action, NULL));
        }
    }
    do {
        probe_ready();
        struct sigaction changed = chosen(SIGUSR1);
        changed.sa_sigaction = NULL;
        PROBE_SABOTAGE("handler", sigaction(SIGUSR1, &changed, NULL));
        changed = chosen(SIGRTMIN + 3);
        sigaddset(&changed.sa_mask, SIGWINCH);
        PROBE_SABOTAGE("mask", sigaction(SIGRTMIN + 3, &changed, NULL));
        changed.sa_flags ^= SA_RESTART;
        PROBE_SABOTAGE("flags", sigaction(SIGRTMIN + 3, &changed, NULL));
        for (int number = 1; number <= SIGRTMAX; number++) {
            if (!may_be_changed(number)) {
                continue;
            }
            const struct sigaction expected = chosen(number);
            struct sigaction found;
            char what[64];
            PROBE_TRY(sigaction(number, NULL, &found));
            snprintf(what, sizeof what, "flags of signal %d", number);
            probe_equal(what, expected.sa_flags, found.sa_flags & ~SA_RESTORER_FLAG);
            snprintf(what, sizeof what, "handler of signal %d", number);
            probe_true(what, expected.sa_sigaction == found.sa_sigaction);
            for (int member = 1; member < SIGRTMAX; member++) {
                snprintf(what, sizeof what, "signal %d in the mask of %d", member, number);
                probe_equal(what, sigismember(&expected.sa_mask, member),
                            sigismember(&found.sa_mask, member));
            }
        }
    } while (probe_more());
    return probe_pass();
}
