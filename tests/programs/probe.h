// SPDX-License-Identifier: Apache-2.0
//
// The protocol of Cryo's test programs, for C and C++. docs/test-programs.md explains it.
//
//     int main(int argc, char **argv)
//     {
//         probe_start(argc, argv);
//         int fd = PROBE_TRY(open(probe_path("log"), O_CREAT | O_RDWR, 0600));
//         PROBE_TRY(lseek(fd, 4096, SEEK_SET));
//         do {
//             probe_ready();                              // says ready, returns when told to check
//             PROBE_SABOTAGE("offset", lseek(fd, 0, SEEK_SET));
//             probe_equal("offset of the log", 4096, lseek(fd, 0, SEEK_CUR));
//         } while (probe_more());
//         return probe_pass();
//     }
//
// Nothing here keeps a descriptor, a mapping, a timer or a signal: while the program waits, it
// holds only its own state.
#ifndef CRYO_TESTS_PROGRAMS_PROBE_H
#define CRYO_TESTS_PROGRAMS_PROBE_H

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#ifdef __cplusplus
extern "C" {
#endif

// Reads the options (--dir DIR, --seed N, --steps N, --sabotage NAME). First call of main.
void probe_start(int argc, char **argv);

// Announces ready, then waits until told to check. The two halves are for programs whose main
// thread waits elsewhere.
void probe_ready(void);
void probe_announce(void);
void probe_await_check(void);

// True if the file "check" contains this WORD (newids: ids may differ).
bool probe_told(const char *word);

// Ends a cycle whose checks all passed; true if the program must run another one.
bool probe_more(void);

// The last verdict, and main's return value.
int probe_pass(void);

// The cycle the program is in, from 1, and the seed it was given.
unsigned probe_cycle(void);
unsigned long probe_seed(void);

// The length of a computation: --steps N, or USUAL.
unsigned long probe_steps(unsigned long usual);

// The name of a file of this run. Never freed: programs are short.
const char *probe_path(const char *name);

// Breaks the feature under test, on request, to prove that the checks notice. The failure must
// mention NAME.
bool probe_sabotaged(const char *name);
#define PROBE_SABOTAGE(name, action)                                                               \
    do {                                                                                           \
        if (probe_sabotaged(name)) {                                                               \
            action;                                                                                \
        }                                                                                          \
    } while (0)

// Verdicts. WHAT names the property; the first check that fails ends the program.
void probe_fail(const char *format, ...) __attribute__((noreturn, format(printf, 1, 2)));
void probe_lacks(const char *feature) __attribute__((noreturn));
void probe_true(const char *what, bool holds);
void probe_equal(const char *what, long long expected, long long found);
void probe_within(const char *what, long long low, long long high, long long found);
void probe_equal_text(const char *what, const char *expected, const char *found);
void probe_equal_bytes(const char *what, const void *expected, const void *found, size_t size);

// Calls that must work: -1 with errno, MAP_FAILED, or an error number fail the program.
#define PROBE_TRY(call) probe_try((call), #call)
#define PROBE_MAP(call) probe_map((call), #call)
#define PROBE_ZERO(call) probe_zero((call), #call)
long probe_try(long result, const char *call);
void *probe_map(void *result, const char *call);
void probe_zero(int error, const char *call);

// A repeatable pattern: byte I of the pattern SALT.
unsigned char probe_byte(unsigned salt, size_t i);
void probe_fill(void *memory, size_t size, unsigned salt);
void probe_filled(const char *what, const void *memory, size_t size, unsigned salt);

// A file's whole text, without the last newline.
const char *probe_read_text(const char *path);

// Waits until the thread TID sleeps in the system call NUMBER.
void probe_await_blocked(pid_t tid, long number);

// Waits until *FLAG is no longer zero; WHAT is named if that never happens.
void probe_await(const char *what, const volatile int *flag);

// A thread that sleeps in a system call while the program is ready.
struct probe_sleeper {
    long (*call)(void *);
    void *argument;
    pthread_t thread;
    volatile int tid;
    volatile int done;
    long result;
    int error;
};

// Starts CALL(ARGUMENT) in a thread; the second returns once it sleeps in the system call NUMBER.
void probe_sleep(struct probe_sleeper *sleeper, long (*call)(void *), void *argument);
void probe_sleep_in(struct probe_sleeper *sleeper, long number, long (*call)(void *),
                    void *argument);

// Checks that the call has not returned. Call it before waking the thread.
void probe_still_asleep(const char *what, const struct probe_sleeper *sleeper);

// Checks that the call returns RESULT (and sets errno to ERROR if that is not zero).
void probe_woken(const char *what, struct probe_sleeper *sleeper, long result, int error);

// Forks a member that runs BODY and ends; returns once it waits in probe_await_check or, with
// NUMBER, sleeps in that system call.
pid_t probe_fork(void (*body)(void));
pid_t probe_fork_sleeping(void (*body)(void), long number);

// Reaps the member, which must have ended without a failure.
void probe_reap(const char *what, pid_t member);

#ifdef __cplusplus
}
#endif
#endif
