/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The program whose checkpoints are measured. It holds MIB of memory and reports how long it did
 * not run, what a fork of it costs, and whether its memory is intact. Commands are read from
 * standard input, one letter each, and are answered by a line with a number:
 *
 *     patient MIB small|huge [CHILDREN [MIB-OF-CHILDREN [at-once]]]
 *
 *     p  0: it is running
 *     f  nanoseconds that fork() took
 *     a  nanoseconds until it and all its children, at once, have forked; with "at-once"
 *     s  0: one of its threads spins from now on
 *     g  the longest time in nanoseconds that it did not spin; it stops spinning
 *     e  0: has changed a word of each page, or of each Nth one; N follows, and a newline
 *     m  nanoseconds to copy its memory, to memory that is already mapped
 *     c  the number of wrong words in its memory, and in its children's
 *     q  ends
 *
 * Children form a chain, each reading the pipe from the one before it; c passes through all.
 */
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static uint64_t *memory;
static size_t words;
static unsigned char *changes; /* the first word of each page */
static atomic_bool spins, stands = 1;
static atomic_ulong longest;

static uint64_t now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static uint64_t word(size_t i)
{
    return (i + 1) * 0x9E3779B97F4A7C15u;
}

enum { of_page = 4096 / sizeof(*memory) };

static uint64_t expected(size_t i)
{
    return word(i) + (i % of_page == 0 ? changes[i / of_page] : 0);
}

/* Different pages each time, and all of them in the end. */
static void change(size_t every)
{
    static size_t first;
    for (size_t page = first++ % every; page < words / of_page; page += every) {
        changes[page]++;
        memory[page * of_page] = expected(page * of_page);
    }
}

static void fill(size_t mib, int advice)
{
    const size_t size = mib << 20;
    words = size / sizeof(*memory);
    if (size == 0)
        return;
    memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    changes = calloc(words / of_page, 1);
    if (memory == MAP_FAILED || changes == NULL)
        exit(2);
    madvise(memory, size, advice);
    for (size_t i = 0; i < words; i++)
        memory[i] = word(i);
}

static uint64_t time_copy(void)
{
    const size_t size = words * sizeof(*memory);
    void *copy = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (copy == MAP_FAILED)
        exit(2);
    memset(copy, 1, size);
    const uint64_t before = now();
    memcpy(copy, memory, size);
    const uint64_t took = now() - before;
    munmap(copy, size);
    return took;
}

static size_t read_number(void)
{
    size_t number = 0;
    char digit;
    while (read(STDIN_FILENO, &digit, 1) == 1 && digit >= '0' && digit <= '9')
        number = number * 10 + (size_t)(digit - '0');
    return number != 0 ? number : 1;
}

static uint64_t wrong_words(void)
{
    uint64_t wrong = 0;
    for (size_t i = 0; i < words; i++)
        wrong += memory[i] != expected(i);
    return wrong;
}

static uint64_t time_fork(void)
{
    const uint64_t before = now();
    const pid_t child = fork();
    if (child == 0)
        _exit(0);
    const uint64_t took = now() - before;
    waitpid(child, NULL, 0);
    return took;
}

/* The effect of a checkpoint on the program: the longest time this thread saw no time pass. */
static void *spin(void *unused)
{
    for (;;) {
        while (!atomic_load(&spins)) {
            atomic_store(&stands, 1);
            usleep(200);
        }
        atomic_store(&stands, 0);
        uint64_t last = now();
        while (atomic_load_explicit(&spins, memory_order_relaxed)) {
            const uint64_t next = now();
            if (next - last > atomic_load_explicit(&longest, memory_order_relaxed))
                atomic_store(&longest, next - last);
            last = next;
        }
    }
    return unused;
}

static void set_spinning(int on)
{
    static int started;
    pthread_t thread;
    if (!started++ && pthread_create(&thread, NULL, spin, NULL) != 0)
        exit(2);
    if (on)
        atomic_store(&longest, 0);
    atomic_store(&spins, on);
    while (atomic_load(&stands) == on)
        usleep(100);
}

/* Each adds its wrong words to the number from the one before it. */
static void be_member(int in, int out)
{
    uint64_t sum;
    while (read(in, &sum, sizeof(sum)) == sizeof(sum)) {
        sum += wrong_words();
        if (write(out, &sum, sizeof(sum)) != sizeof(sum))
            break;
    }
    _exit(0);
}

/* The first process's ends of the chain. */
static int first_out = -1, last_in = -1;

/* For "a": the children; the pipe on which each reports that it has forked, and that it is back;
 * and the gate that the forks wait for. */
static pid_t *members;
static int member_count, told[2], gate[2];

static void tell_or_end(void)
{
    if (write(told[1], "", 1) != 1)
        _exit(2);
}

static void await_told(int times)
{
    char byte;
    while (times-- > 0) {
        if (read(told[0], &byte, 1) != 1)
            exit(2);
    }
}

static void fork_that_waits(int signal)
{
    const pid_t child = fork();
    char byte;
    if (child == 0)
        _exit(read(gate[0], &byte, 1) != 1);
    if (child < 0)
        _exit(2);
    tell_or_end();
    if (signal != 0) { /* a member, which has no other children */
        waitpid(child, NULL, 0);
        tell_or_end();
    }
}

static uint64_t time_forks_at_once(void)
{
    const uint64_t before = now();
    for (int i = 0; i < member_count; i++)
        kill(members[i], SIGUSR1);
    fork_that_waits(0);
    await_told(member_count + 1);
    const uint64_t took = now() - before;
    for (int i = 0; i <= member_count; i++) {
        if (write(gate[1], "", 1) != 1)
            exit(2);
    }
    await_told(member_count);
    return took;
}

static void prepare_forks_at_once(int count)
{
    struct sigaction action = {.sa_handler = fork_that_waits, .sa_flags = SA_RESTART};
    members = calloc((size_t)count, sizeof(*members));
    if (members == NULL || pipe(told) != 0 || pipe(gate) != 0 ||
        sigaction(SIGUSR1, &action, NULL) != 0)
        exit(2);
}

static void make_members(int count, size_t mib, int advice)
{
    int next[2];
    if (pipe(next) != 0)
        exit(2);
    first_out = next[1];
    last_in = next[0];
    for (int i = 0; i < count; i++) {
        if (pipe(next) != 0)
            exit(2);
        const pid_t child = fork();
        if (child < 0)
            exit(2);
        if (child == 0) {
            close(first_out);
            close(next[0]);
            fill(mib, advice);
            be_member(last_in, next[1]);
        }
        if (members != NULL)
            members[member_count++] = child;
        close(last_in);
        close(next[1]);
        last_in = next[0];
    }
}

static uint64_t all_wrong_words(void)
{
    uint64_t sum = wrong_words();
    if (write(first_out, &sum, sizeof(sum)) != sizeof(sum) ||
        read(last_in, &sum, sizeof(sum)) != sizeof(sum))
        return UINT64_MAX;
    return sum;
}

int main(int argc, char **argv)
{
    if (argc < 3)
        return 2;
    const int advice = strcmp(argv[2], "huge") == 0 ? MADV_HUGEPAGE : MADV_NOHUGEPAGE;
    if (argc > 5)
        prepare_forks_at_once(atoi(argv[3]));
    make_members(argc > 3 ? atoi(argv[3]) : 0, argc > 4 ? strtoul(argv[4], NULL, 10) : 0, advice);
    fill(strtoul(argv[1], NULL, 10), advice);
    setvbuf(stdout, NULL, _IOLBF, 0);
    char command;
    while (read(STDIN_FILENO, &command, 1) == 1 && command != 'q') {
        uint64_t answer = 0;
        if (command == 'f')
            answer = time_fork();
        else if (command == 'a')
            answer = time_forks_at_once();
        else if (command == 's')
            set_spinning(1);
        else if (command == 'e')
            change(read_number());
        else if (command == 'm')
            answer = time_copy();
        else if (command == 'c')
            answer = all_wrong_words();
        else if (command == 'g') {
            set_spinning(0);
            answer = atomic_load(&longest);
        }
        printf("%llu\n", (unsigned long long)answer);
    }
    return 0;
}
