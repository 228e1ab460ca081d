/* SPDX-License-Identifier: Apache-2.0 */
/* Memory that changes in every possible way, with a checksum of its contents.
 *
 *     changes
 *
 * Reads lines "WAY SEED" from standard input, changes some pages in that way, and answers each with
 * a checksum of all memory; "where" with the address of the part that most ways change; "later WAY
 * SEED" changes much at once, and does WAY in a callback of the next checkpoint, so that its own
 * answer is useless. The last line is "end"; an unknown way ends the program with 2.
 */
#include "changes.h"

#include <errno.h>
#include <fcntl.h>
#include <libcr.h>
#include <linux/io_uring.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

enum { pages = 256, half = pages / 2, huge_pages = 1024 };

#ifndef MADV_PAGEOUT
#define MADV_PAGEOUT 21
#endif
#ifndef MADV_COLLAPSE
#define MADV_COLLAPSE 25
#endif
#ifndef MADV_GUARD_INSTALL
#define MADV_GUARD_INSTALL 102
#define MADV_GUARD_REMOVE 103
#endif

static unsigned char *area;    /* pages, the area that most ways change */
static unsigned char *huge;    /* huge_pages, aligned, transparent huge pages if there are any */
static unsigned char *tables;  /* huge_pages, aligned, no huge pages */
static unsigned char *heap;    /* by sbrk */
static unsigned char *shared;  /* written by children */
static unsigned char *private; /* private mapping of a file */
static unsigned char *stack;   /* of main */
static unsigned char *grown;   /* by mremap */
static unsigned char *guarded; /* half, some of them guard pages */
static size_t heap_pages, grown_pages;

void need(int good, const char *what)
{
    if (good)
        return;
    perror(what);
    exit(1);
}

void *map(size_t count, int flags)
{
    void *memory = mmap(NULL, count * page, PROT_READ | PROT_WRITE, flags, -1, 0);
    need(memory != MAP_FAILED, "mmap");
    return memory;
}

static uint64_t mix(uint64_t x)
{
    x ^= x >> 30;
    x *= 0xbf58476d1ce4e5b9U;
    x ^= x >> 27;
    x *= 0x94d049bb133111ebU;
    return x ^ x >> 31;
}

void fill(unsigned char *to, size_t count, uint64_t seed)
{
    for (size_t i = 0; i < count * page; i += sizeof(seed)) {
        const uint64_t word = mix(seed << 32 ^ i);
        memcpy(to + i, &word, sizeof(word));
    }
}

static uint64_t add(uint64_t sum, const unsigned char *from, size_t count)
{
    for (size_t i = 0; from != NULL && i < count * page; i += sizeof(uint64_t)) {
        uint64_t word;
        memcpy(&word, from + i, sizeof(word));
        sum = mix(sum ^ word) + i;
    }
    return sum;
}

/* Unreadable pages count, too. */
static uint64_t add_guarded(uint64_t sum)
{
    static unsigned char text[page];
    for (size_t i = 0; i < half; i++) {
        struct iovec from = {guarded + i * page, page};
        struct iovec to = {text, page};
        const int good = process_vm_readv(getpid(), &to, 1, &from, 1, 0) == page;
        sum = good ? add(sum, text, 1) : mix(sum + i);
    }
    return sum;
}

static uint64_t sum_of_all(void)
{
    uint64_t sum = add(1, area, pages);
    sum = add(sum, huge, huge_pages);
    sum = add(sum, tables, huge_pages);
    sum = add(sum, heap, heap_pages);
    sum = add(sum, shared, few);
    sum = add(sum, private, few);
    sum = add(sum, stack, few);
    sum = add(sum, aside, aside != NULL ? few : 0);
    sum = add_guarded(sum);
    return add(sum, grown, grown_pages);
}

/* An unnamed file of `count` pages whose contents follow from the seed. */
static int file_with(size_t count, uint64_t seed, int flags)
{
    char name[] = "/tmp/cryo-changes.XXXXXX";
    int fd = mkstemp(name);
    need(fd >= 0, "mkstemp");
    unsigned char *text = malloc(count * page);
    need(text != NULL, "malloc");
    fill(text, count, seed);
    need(write(fd, text, count * page) == (ssize_t)(count * page), "write");
    free(text);
    int again = open(name, O_RDONLY | flags);
    if (again < 0) /* O_DIRECT is unsupported there */
        again = open(name, O_RDONLY);
    need(again >= 0, "open");
    unlink(name);
    close(fd);
    return again;
}

static void by_read(unsigned char *to, uint64_t seed, int flags)
{
    int fd = file_with(few, seed, flags);
    need(pread(fd, to, few * (size_t)page, 0) == few * page, "pread");
    close(fd);
}

/* The kernel reads into memory outside any system call that names it. 0: no io_uring here. */
static int by_ring(unsigned char *to, uint64_t seed)
{
    struct io_uring_params about = {0};
    int ring = (int)syscall(SYS_io_uring_setup, 2, &about);
    if (ring < 0)
        return 0;
    size_t size = about.sq_off.array + about.sq_entries * sizeof(unsigned);
    if (size < about.cq_off.cqes + about.cq_entries * sizeof(struct io_uring_cqe))
        size = about.cq_off.cqes + about.cq_entries * sizeof(struct io_uring_cqe);
    unsigned char *rings =
        mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, ring, IORING_OFF_SQ_RING);
    struct io_uring_sqe *entry = mmap(NULL, about.sq_entries * sizeof(*entry),
                                      PROT_READ | PROT_WRITE, MAP_SHARED, ring, IORING_OFF_SQES);
    need(rings != MAP_FAILED && entry != MAP_FAILED, "mmap of a ring");
    /* The buffer is pinned, and written to without going through the page tables. */
    struct iovec buffer = {to, few * (size_t)page};
    need(syscall(SYS_io_uring_register, ring, IORING_REGISTER_BUFFERS, &buffer, 1) == 0,
         "registering a buffer");
    int fd = file_with(few, seed, 0);
    memset(entry, 0, sizeof(*entry));
    entry->opcode = IORING_OP_READ_FIXED;
    entry->flags = IOSQE_ASYNC; /* by a kernel worker thread, which stays */
    entry->fd = fd;
    entry->addr = (uintptr_t)to;
    entry->len = few * page;
    *(unsigned *)(void *)(rings + about.sq_off.array) = 0;
    __atomic_store_n((unsigned *)(void *)(rings + about.sq_off.tail), 1, __ATOMIC_RELEASE);
    need(syscall(SYS_io_uring_enter, ring, 1, 1, IORING_ENTER_GETEVENTS, NULL, 0) == 1,
         "io_uring_enter");
    struct io_uring_cqe done;
    memcpy(&done, rings + about.cq_off.cqes, sizeof(done));
    need(done.res == few * page, "reading by a ring");
    munmap(rings, size);
    munmap(entry, about.sq_entries * sizeof(*entry));
    close(fd);
    close(ring);
    return 1;
}

static void by_child(unsigned char *to, uint64_t seed)
{
    pid_t child = fork();
    need(child >= 0, "fork");
    if (child == 0) {
        fill(to, few, seed);
        _exit(0);
    }
    int status;
    need(waitpid(child, &status, 0) == child && status == 0, "waitpid");
}

static void *by_thread(void *seed)
{
    fill(area, few, *(uint64_t *)seed);
    return NULL;
}

/* Aligned to whole page tables. */
static unsigned char *map_aligned(size_t count)
{
    const size_t to = 512 * (size_t)page;
    unsigned char *memory = map(count + 512, MAP_PRIVATE | MAP_ANONYMOUS);
    return memory + (to - (uintptr_t)memory % to);
}

/* Swaps the contents of two areas by moving their pages. */
static void exchange(unsigned char *a, unsigned char *b, size_t count)
{
    const size_t size = count * page;
    unsigned char *away = map_aligned(count);
    const int move = MREMAP_MAYMOVE | MREMAP_FIXED;
    need(mremap(a, size, size, move, away) == away, "mremap");
    need(mremap(b, size, size, move, a) == a, "mremap");
    need(mremap(away, size, size, move, b) == b, "mremap");
}

static int obey(const char *way, uint64_t seed)
{
    /* A different place each time. */
    unsigned char *at = area + mix(seed) % (half - few) * page;
    if (strcmp(way, "none") == 0) {
    } else if (strcmp(way, "store") == 0) {
        at[17] ^= 1;
    } else if (strcmp(way, "zero") == 0) {
        memset(at, 0, few * (size_t)page);
    } else if (strcmp(way, "read") == 0) {
        by_read(at, seed, 0);
    } else if (strcmp(way, "direct") == 0) {
        by_read(at, seed, O_DIRECT);
    } else if (strcmp(way, "ring") == 0) {
        if (!by_ring(at, seed))
            by_read(at, seed, 0);
    } else if (strcmp(way, "writev") == 0) {
        unsigned char *text = malloc(few * (size_t)page);
        need(text != NULL, "malloc");
        fill(text, few, seed);
        struct iovec from = {text, few * (size_t)page};
        struct iovec to = {at, few * (size_t)page};
        need(process_vm_writev(getpid(), &from, 1, &to, 1, 0) == few * page, "process_vm_writev");
        free(text);
    } else if (strcmp(way, "writers") == 0) {
        write_for_ever();
    } else if (strcmp(way, "mem") == 0) {
        int fd = open("/proc/self/mem", O_RDWR);
        need(fd >= 0 && pwrite(fd, &seed, sizeof(seed), (off_t)(uintptr_t)at) == sizeof(seed),
             "/proc/self/mem");
        close(fd);
    } else if (strcmp(way, "exchange") == 0) {
        exchange(area, area + half * (size_t)page, half);
    } else if (strcmp(way, "exchange_back") == 0) {
        exchange(area, area + half * (size_t)page, half);
        area[5 * page]++;
        exchange(area, area + half * (size_t)page, half);
    } else if (strcmp(way, "exchange_tables") == 0) { /* moved without a look at their entries */
        exchange(tables, tables + huge_pages / 2 * (size_t)page, huge_pages / 2);
    } else if (strcmp(way, "exchange_huge") == 0) {
        exchange(huge, huge + huge_pages / 2 * (size_t)page, huge_pages / 2);
    } else if (strcmp(way, "page_out") == 0) { /* if there is swap */
        madvise(area, pages * (size_t)page, MADV_PAGEOUT);
        at[17] ^= 1;
    } else if (strcmp(way, "grow") == 0) {
        const size_t before = grown_pages;
        grown_pages += 40;
        if (before == 0)
            grown = map(grown_pages, MAP_PRIVATE | MAP_ANONYMOUS);
        else
            grown = mremap(grown, before * page, grown_pages * page, MREMAP_MAYMOVE);
        need(grown != MAP_FAILED, "mremap");
        fill(grown + before * page, grown_pages - before, seed);
    } else if (strcmp(way, "shrink") == 0) {
        need(mremap(grown, grown_pages * page, (grown_pages - 20) * page, 0) == grown, "mremap");
        grown_pages -= 20;
    } else if (strcmp(way, "drop") == 0) {
        need(madvise(at, few * (size_t)page, MADV_DONTNEED) == 0, "madvise");
    } else if (strcmp(way, "drop_and_fill") == 0) {
        need(madvise(at, few * (size_t)page, MADV_DONTNEED) == 0, "madvise");
        fill(at, few, seed);
    } else if (strcmp(way, "free_and_fill") == 0) {
        need(madvise(at, few * (size_t)page, MADV_FREE) == 0, "madvise");
        fill(at, few, seed);
    } else if (strcmp(way, "unmap") == 0) {
        munmap(at, few * (size_t)page);
        need(mmap(at, few * (size_t)page, PROT_READ | PROT_WRITE,
                  MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == at,
             "mmap");
        fill(at, few, seed);
    } else if (strcmp(way, "guard") == 0) { /* if guard pages are supported */
        if (madvise(at, few * (size_t)page, MADV_GUARD_INSTALL) == 0)
            need(madvise(at, few * (size_t)page, MADV_GUARD_REMOVE) == 0, "madvise");
        fill(at, few, seed);
    } else if (strcmp(way, "guard_stays") == 0) { /* two more guard pages; contents are lost */
        madvise(guarded + mix(seed) % (half - 2) * page, 2 * (size_t)page, MADV_GUARD_INSTALL);
    } else if (strcmp(way, "protect") == 0) {
        need(mprotect(at, few * (size_t)page, PROT_NONE) == 0, "mprotect");
        need(mprotect(at, few * (size_t)page, PROT_READ | PROT_WRITE) == 0, "mprotect");
        fill(at, few, seed);
    } else if (strcmp(way, "fork") == 0) {
        by_child(at, seed);
        fill(at, 1, seed);
    } else if (strcmp(way, "thread") == 0) {
        pthread_t thread;
        need(pthread_create(&thread, NULL, by_thread, &seed) == 0, "pthread_create");
        pthread_join(thread, NULL);
    } else if (strcmp(way, "aside") == 0) {
        by_thread_aside(seed);
    } else if (strcmp(way, "huge") == 0) {
        huge[mix(seed) % huge_pages * page] ^= 1;
    } else if (strcmp(way, "huge_all") == 0) {
        fill(huge, huge_pages, seed);
    } else if (strcmp(way, "collapse") == 0) {
        huge[mix(seed) % huge_pages * page] ^= 1;
        madvise(huge, huge_pages * (size_t)page, MADV_COLLAPSE); /* if that is possible */
        huge[mix(seed + 1) % huge_pages * page] ^= 1;
    } else if (strcmp(way, "brk") == 0) {
        unsigned char *more = sbrk(30 * page);
        need(more != (void *)-1, "sbrk");
        if (heap == NULL)
            heap = more;
        heap_pages += 30;
        fill(heap + (heap_pages - 30) * page, 30, seed);
    } else if (strcmp(way, "apart") == 0 || strcmp(way, "apart_dropped") == 0) {
        /* Near each other and far apart, so that they are examined together and one by one. */
        static const size_t which[] = {0, 2, 300, 556, 557, 900, 1023};
        for (size_t i = 0; i < sizeof(which) / sizeof(*which); i++) {
            if (strcmp(way, "apart_dropped") == 0 && i % 2 == 0)
                need(madvise(tables + which[i] * page, page, MADV_DONTNEED) == 0, "madvise");
            else
                fill(tables + which[i] * page, 1, seed + i);
        }
    } else if (strcmp(way, "brk_again") == 0) {
        need(brk(heap + 10 * page) == 0 && brk(heap + heap_pages * page) == 0, "brk");
        fill(heap + 10 * page, 5, seed);
    } else if (strcmp(way, "close") == 0) {
        for (int fd = 3; fd < 1024; fd++)
            close(fd);
    } else if (strcmp(way, "shared") == 0) {
        by_child(shared, seed);
    } else if (strcmp(way, "private") == 0) {
        fill(private, few, seed);
    } else if (strcmp(way, "stack") == 0) {
        fill(stack, few, seed);
    } else if (strcmp(way, "dontfork") == 0) {
        need(madvise(area, few * (size_t)page, MADV_DONTFORK) == 0, "madvise");
        fill(area, few, seed);
    } else if (strcmp(way, "dofork") == 0) {
        fill(area, 1, seed);
        need(madvise(area, few * (size_t)page, MADV_DOFORK) == 0, "madvise");
    } else if (strcmp(way, "split") == 0 || strcmp(way, "join") == 0) {
        /* A mapping that is split in three, or joined again; much of it has changed just before. */
        for (size_t i = 0; i < half; i += 3)
            fill(area + i * page, 1, seed + i);
        need(madvise(area + half * (size_t)page, few * (size_t)page,
                     *way == 's' ? MADV_DONTDUMP : MADV_DODUMP) == 0,
             "madvise");
    } else {
        return 0;
    }
    return 1;
}

static char later_way[32];
static unsigned long long later_seed;

static int before_checkpoint(void *unused)
{
    (void)unused;
    char byte;
    if (strcmp(later_way, "await") == 0) { /* until any line arrives; its text does not matter */
        need(write(STDOUT_FILENO, "awaits\n", 7) == 7, "write");
        while (read(STDIN_FILENO, &byte, 1) == 1 && byte != '\n')
            continue;
        later_way[0] = 0;
    }
    need(*later_way == 0 || obey(later_way, later_seed), later_way);
    *later_way = 0;
    return cr_checkpoint(CR_CHECKPOINT_READY) < 0;
}

/* Half of the pages that most ways change, and some of the other areas. */
static void change_much(uint64_t seed)
{
    for (size_t i = seed % 2; i < pages; i += 2)
        fill(area + i * page, 1, seed);
    for (size_t i = seed % 8; i < half; i += 8) { /* fails on guard pages, which stay as they are */
        struct iovec from = {&seed, sizeof(seed)};
        struct iovec to = {guarded + i * page, sizeof(seed)};
        process_vm_writev(getpid(), &from, 1, &to, 1, 0);
    }
    for (size_t i = seed % 16; i < huge_pages; i += 16) {
        fill(huge + i * page, 1, seed);
        fill(tables + i * page, 1, seed);
    }
}

static void do_later(const char *way, unsigned long long seed)
{
    static int is_registered;
    if (!is_registered++)
        need(cr_init() >= 0 &&
                 cr_register_callback(before_checkpoint, NULL, CR_SIGNAL_CONTEXT) >= 0,
             "cr_register_callback");
    snprintf(later_way, sizeof(later_way), "%s", way);
    later_seed = seed;
    change_much(seed);
}

static int read_line(char *line, size_t size)
{
    for (size_t at = 0; at < size; at++) {
        ssize_t n;
        do {
            n = read(STDIN_FILENO, line + at, 1);
        } while (n < 0 && errno == EINTR);
        if (n != 1)
            return 0;
        if (line[at] == '\n') {
            line[at] = 0;
            return 1;
        }
    }
    return 0;
}

static void answer(unsigned long long number)
{
    char text[32];
    const int size = snprintf(text, sizeof(text), "%016llx\n", number);
    need(write(STDOUT_FILENO, text, (size_t)size) == size, "write");
}

int main(void)
{
    unsigned char on_stack[few * page];
    const size_t huge_size = huge_pages * (size_t)page;
    area = map(pages, MAP_PRIVATE | MAP_ANONYMOUS);
    huge = map_aligned(huge_pages);
    madvise(huge, huge_size, MADV_HUGEPAGE);
    tables = map_aligned(huge_pages);
    madvise(tables, huge_size, MADV_NOHUGEPAGE);
    shared = map(few, MAP_SHARED | MAP_ANONYMOUS);
    guarded = map(half, MAP_PRIVATE | MAP_ANONYMOUS);
    int self = open("/proc/self/exe", O_RDONLY);
    private = mmap(NULL, few * (size_t)page, PROT_READ | PROT_WRITE, MAP_PRIVATE, self, 0);
    need(self >= 0 && private != MAP_FAILED, "mapping a file");
    close(self);
    stack = on_stack;
    fill(area, pages, 1);
    fill(huge, huge_pages, 2);
    fill(tables, huge_pages, 5);
    fill(shared, few, 3);
    fill(stack, few, 4);
    fill(guarded, half, 6);
    answer(sum_of_all());
    char line[64];
    char way[32];
    unsigned long long seed;
    while (read_line(line, sizeof(line)) && strcmp(line, "end") != 0) {
        if (sscanf(line, "later %31s %llu", way, &seed) == 2) {
            do_later(way, seed);
            answer(0);
            continue;
        }
        if (sscanf(line, "%31s %llu", way, &seed) != 2)
            return 2;
        const int where = strcmp(way, "where") == 0;
        if (!where && !obey(way, seed))
            return 2;
        answer(where ? (uintptr_t)area : sum_of_all());
    }
    return 0;
}
