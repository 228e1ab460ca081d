// SPDX-License-Identifier: Apache-2.0
// A program that has a handler for every signal, and gets each of them.
#include "probe.h"

static volatile sig_atomic_t seen[_NSIG], values[_NSIG];

static void handler(int number, siginfo_t *info, void *context)
{
    (void)context;
    seen[number]++;
    values[number] = info->si_value.sival_int;
}

static bool is_usable(int number)
{
    // The C library reserves the first two real-time signals.
    return number != SIGKILL && number != SIGSTOP && (number < 32 || number >= SIGRTMIN);
}

int main(int argc, char **argv)
{
    probe_start(argc, argv);
    const struct sigaction action = {.sa_sigaction = handler, .sa_flags = SA_SIGINFO | SA_RESTART};
    for (int number = 1; number <= SIGRTMAX; number++) {
        if (is_usable(number)) {
            PROBE_TRY(sigaction(number, &action, NULL));
        }
    }
    do {
        probe_ready();
        const struct sigaction usual = {.sa_handler = SIG_IGN};
        PROBE_SABOTAGE("signal", sigaction(SIGRTMAX, &usual, NULL));
        for (int number = 1; number <= SIGRTMAX; number++) {
            char what[24];
            struct sigaction found;
            if (!is_usable(number)) {
                continue;
            }
            snprintf(what, sizeof what, "signal %d", number);
            seen[number] = 0;
            PROBE_TRY(sigaction(number, NULL, &found));
            probe_true(what, probe_sabotaged("signal") || found.sa_sigaction == handler);
            PROBE_TRY(raise(number));
            PROBE_TRY(kill(getpid(), number));
            PROBE_TRY(sigqueue(getpid(), number, (union sigval){.sival_int = number}));
            probe_equal(what, 3, seen[number]);
            probe_equal(what, number, values[number]);
        }
    } while (probe_more());
    return probe_pass();
}
