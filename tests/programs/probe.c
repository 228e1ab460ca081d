// SPDX-License-Identifier: Apache-2.0
#include "probe.h"

#include <limits.h>
#include <poll.h>
#include <stdarg.h>

enum { PAUSE_MS = 2, PATIENCE_PAUSES = 60 * 1000 / PAUSE_MS, LACKS_FEATURE = 77 };

static char directory[PATH_MAX];
static char sabotage[64];
static unsigned long seed = 1;
static unsigned long steps;
static unsigned cycle = 1;
static char told[256];

static void path_of(char *path, size_t size, const char *name, unsigned number)
{
    snprintf(path, size, "%s/%s.%u", directory, name, number);
}

// The file appears complete, or not at all; false if it exists already.
static bool publish(const char *name, const char *text)
{
    char path[PATH_MAX + 32], draft[PATH_MAX + 64];
    path_of(path, sizeof path, name, cycle);
    snprintf(draft, sizeof draft, "%s.draft.%ld", path, (long)syscall(SYS_gettid));
    const int fd = open(draft, O_CREAT | O_TRUNC | O_WRONLY | O_CLOEXEC, 0600);
    const ssize_t size = (ssize_t)strlen(text);
    if (fd < 0 || write(fd, text, (size_t)size) != size || close(fd) != 0) {
        fprintf(stderr, "probe: cannot write %s: %s\n", draft, strerror(errno));
        _exit(2);
    }
    const bool first = link(draft, path) == 0;
    unlink(draft);
    return first;
}

// In one call, so that it is safe in a signal handler and if stdio is broken.
static void say(const char *text)
{
    char line[1200];
    const int size = snprintf(line, sizeof line, "%s\n", text);
    if (write(STDOUT_FILENO, line, (size_t)size) != size) {
        errno = 0; // only the verdict file matters
    }
}

static void verdict(int status, const char *text) __attribute__((noreturn));
static void verdict(int status, const char *text)
{
    publish("verdict", text);
    say(text);
    _exit(status);
}

void probe_start(int argc, char **argv)
{
    for (int i = 1; i < argc; i++) {
        const bool has_value = i + 1 < argc;
        if (strcmp(argv[i], "--dir") == 0 && has_value) {
            if (realpath(argv[++i], directory) == NULL) {
                fprintf(stderr, "probe: %s: %s\n", argv[i], strerror(errno));
                exit(2);
            }
        } else if (strcmp(argv[i], "--seed") == 0 && has_value) {
            seed = strtoul(argv[++i], NULL, 10);
        } else if (strcmp(argv[i], "--steps") == 0 && has_value) {
            steps = strtoul(argv[++i], NULL, 10);
        } else if (strcmp(argv[i], "--sabotage") == 0 && has_value) {
            snprintf(sabotage, sizeof sabotage, "%s", argv[++i]);
        } else {
            fprintf(stderr, "usage: %s --dir DIR [--seed N] [--steps N] [--sabotage NAME]\n",
                    argv[0]);
            exit(2);
        }
    }
    if (directory[0] == '\0') {
        fprintf(stderr, "probe: %s needs --dir DIR\n", argv[0]);
        exit(2);
    }
}

void probe_announce(void)
{
    publish("ready", "");
}

void probe_await_check(void)
{
    char path[PATH_MAX + 32];
    path_of(path, sizeof path, "check", cycle);
    // The probe sleeps in this system call only here, so probe_fork can tell where a member is.
    while (access(path, F_OK) != 0) {
        nanosleep(&(struct timespec){.tv_nsec = PAUSE_MS * 1000 * 1000}, NULL);
    }
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    const ssize_t size = fd < 0 ? -1 : read(fd, told, sizeof told - 1);
    if (size < 0) {
        probe_fail("cannot read %s: %s", path, strerror(errno));
    }
    told[size] = '\0';
    close(fd);
}

void probe_ready(void)
{
    probe_announce();
    probe_await_check();
}

bool probe_told(const char *word)
{
    const size_t size = strlen(word);
    for (const char *at = told; (at = strstr(at, word)) != NULL; at += size) {
        if ((at == told || at[-1] == ' ') && strchr(" \n", at[size]) != NULL) {
            return true;
        }
    }
    return false;
}

bool probe_more(void)
{
    if (!probe_told("more")) {
        return false;
    }
    if (!publish("verdict", "PASS")) {
        _exit(1); // another process of this program has reported a failure
    }
    cycle++;
    return true;
}

int probe_pass(void)
{
    if (!publish("verdict", "PASS")) {
        return 1;
    }
    say("PASS");
    return 0;
}

unsigned probe_cycle(void)
{
    return cycle;
}

unsigned long probe_seed(void)
{
    return seed;
}

unsigned long probe_steps(unsigned long usual)
{
    return steps != 0 ? steps : usual;
}

const char *probe_path(const char *name)
{
    char *path = NULL;
    if (asprintf(&path, "%s/%s", directory, name) < 0) {
        abort();
    }
    return path;
}

bool probe_sabotaged(const char *name)
{
    return strcmp(name, sabotage) == 0;
}

void probe_fail(const char *format, ...)
{
    char text[1024] = "FAIL: ";
    const size_t used = strlen(text);
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text + used, sizeof text - used, format, arguments);
    va_end(arguments);
    verdict(1, text);
}

void probe_lacks(const char *feature)
{
    char text[256];
    snprintf(text, sizeof text, "LACKS: %s", feature);
    verdict(LACKS_FEATURE, text);
}

void probe_true(const char *what, bool holds)
{
    if (!holds) {
        probe_fail("%s: expected to hold, found not to", what);
    }
}

void probe_equal(const char *what, long long expected, long long found)
{
    if (expected != found) {
        probe_fail("%s: expected %lld (%#llx), found %lld (%#llx)", what, expected,
                   (unsigned long long)expected, found, (unsigned long long)found);
    }
}

void probe_within(const char *what, long long low, long long high, long long found)
{
    if (found < low || found > high) {
        probe_fail("%s: expected %lld to %lld, found %lld", what, low, high, found);
    }
}

void probe_equal_text(const char *what, const char *expected, const char *found)
{
    if (found == NULL || strcmp(expected, found) != 0) {
        probe_fail("%s: expected \"%.200s\", found \"%.200s\"", what, expected,
                   found != NULL ? found : "(nothing)");
    }
}

void probe_equal_bytes(const char *what, const void *expected, const void *found, size_t size)
{
    const unsigned char *e = expected, *f = found;
    for (size_t i = 0; i < size; i++) {
        if (e[i] != f[i]) {
            probe_fail("%s: byte %zu of %zu: expected %#x, found %#x", what, i, size, e[i], f[i]);
        }
    }
}

long probe_try(long result, const char *call)
{
    if (result == -1) {
        probe_fail("%s: %s", call, strerror(errno));
    }
    return result;
}

void *probe_map(void *result, const char *call)
{
    if (result == MAP_FAILED || result == NULL) {
        probe_fail("%s: %s", call, strerror(errno));
    }
    return result;
}

void probe_zero(int error, const char *call)
{
    if (error != 0) {
        probe_fail("%s: %s", call, strerror(error));
    }
}

unsigned char probe_byte(unsigned salt, size_t i)
{
    const uint64_t mixed = (i + 1) * 0x9e3779b97f4a7c15u ^ (uint64_t)salt * 0xc2b2ae3d27d4eb4fu;
    return (unsigned char)(mixed >> 29 | 1);
}

void probe_fill(void *memory, size_t size, unsigned salt)
{
    unsigned char *bytes = memory;
    for (size_t i = 0; i < size; i++) {
        bytes[i] = probe_byte(salt, i);
    }
}

void probe_filled(const char *what, const void *memory, size_t size, unsigned salt)
{
    const unsigned char *bytes = memory;
    for (size_t i = 0; i < size; i++) {
        if (bytes[i] != probe_byte(salt, i)) {
            probe_fail("%s: byte %zu of %zu: expected %#x, found %#x", what, i, size,
                       probe_byte(salt, i), bytes[i]);
        }
    }
}

const char *probe_read_text(const char *path)
{
    char text[16384];
    const int fd = PROBE_TRY(open(path, O_RDONLY | O_CLOEXEC));
    size_t used = 0;
    for (ssize_t got; (got = read(fd, text + used, sizeof text - 1 - used)) > 0;) {
        used += (size_t)got;
    }
    close(fd);
    if (used > 0 && text[used - 1] == '\n') {
        used--;
    }
    text[used] = '\0';
    return strdup(text);
}

// Patience is counted in pauses, not by a clock: the program may be saved for days in between.
static void lose_patience(unsigned pauses, const char *what)
{
    if (pauses > PATIENCE_PAUSES) {
        probe_fail("%s: did not happen in time", what);
    }
    poll(NULL, 0, PAUSE_MS);
}

// A preloaded library may replace one of these calls by another.
static bool is_call(long asked, long found)
{
    const bool may_be_ppoll =
        asked == SYS_poll || asked == SYS_epoll_wait || asked == SYS_epoll_pwait;
    return found == asked || (may_be_ppoll && found == SYS_ppoll);
}

void probe_await_blocked(pid_t tid, long number)
{
    char path[64], what[80], text[64];
    snprintf(path, sizeof path, "/proc/%d/syscall", tid);
    snprintf(what, sizeof what, "thread %d sleeping in system call %ld", tid, number);
    for (unsigned pauses = 0;; pauses++) {
        const int fd = open(path, O_RDONLY | O_CLOEXEC);
        const ssize_t got = fd < 0 ? -1 : read(fd, text, sizeof text - 1);
        if (fd >= 0) {
            close(fd);
        }
        if (got > 0) {
            text[got] = '\0';
            char *end;
            if (is_call(number, strtol(text, &end, 10)) && end != text) {
                return;
            }
        }
        lose_patience(pauses, what);
    }
}

void probe_await(const char *what, const volatile int *flag)
{
    for (unsigned pauses = 0; __atomic_load_n(flag, __ATOMIC_ACQUIRE) == 0; pauses++) {
        lose_patience(pauses, what);
    }
}

static void *sleep_in_call(void *argument)
{
    struct probe_sleeper *sleeper = argument;
    __atomic_store_n(&sleeper->tid, (int)syscall(SYS_gettid), __ATOMIC_RELEASE);
    errno = 0;
    sleeper->result = sleeper->call(sleeper->argument);
    sleeper->error = errno;
    __atomic_store_n(&sleeper->done, 1, __ATOMIC_RELEASE);
    return NULL;
}

void probe_sleep(struct probe_sleeper *sleeper, long (*call)(void *), void *argument)
{
    *sleeper = (struct probe_sleeper){.call = call, .argument = argument};
    PROBE_ZERO(pthread_create(&sleeper->thread, NULL, sleep_in_call, sleeper));
    probe_await("start of the sleeping thread", &sleeper->tid);
}

void probe_sleep_in(struct probe_sleeper *sleeper, long number, long (*call)(void *),
                    void *argument)
{
    probe_sleep(sleeper, call, argument);
    probe_await_blocked(sleeper->tid, number);
}

void probe_still_asleep(const char *what, const struct probe_sleeper *sleeper)
{
    if (__atomic_load_n(&sleeper->done, __ATOMIC_ACQUIRE)) {
        probe_fail("%s: expected to sleep on, found returned %ld (errno %d)", what, sleeper->result,
                   sleeper->error);
    }
}

void probe_woken(const char *what, struct probe_sleeper *sleeper, long result, int error)
{
    probe_await(what, &sleeper->done);
    PROBE_ZERO(pthread_join(sleeper->thread, NULL));
    if (sleeper->result != result || (error != 0 && sleeper->error != error)) {
        probe_fail("%s: expected %ld (errno %d), found %ld (errno %d)", what, result, error,
                   sleeper->result, sleeper->error);
    }
}

pid_t probe_fork_sleeping(void (*body)(void), long number)
{
    const pid_t member = PROBE_TRY(fork());
    if (member == 0) {
        body();
        _exit(0);
    }
    probe_await_blocked(member, number);
    return member;
}

pid_t probe_fork(void (*body)(void))
{
    return probe_fork_sleeping(body, SYS_clock_nanosleep);
}

void probe_reap(const char *what, pid_t member)
{
    int status = -1;
    probe_equal(what, member, waitpid(member, &status, 0));
    if (status != 0) {
        probe_fail("%s: expected to end well, found wait status %#x", what, (unsigned)status);
    }
}
