// SPDX-License-Identifier: Apache-2.0
// Memory that parent, child and grandchild had in common at the forks, and that each has changed
// since: contents, zeros, holes, protections, other mappings in place of it, and a longer heap.
// Each page is what its process has made of it, and what one of them writes later is seen by none
// of the others.
#include "probe.h"

enum { PAGE = 4096, WORDS = PAGE / 8, MOST_PAGES = 2048 };
enum { ANONYMOUS, HEAP, FILED, GROWN, AREAS };
// What a page must have: zeros, no memory at all, or the pattern of a number from there on.
enum { ZEROS, HOLE, FIRST_SALT };
// When a page was written, and by which of them.
enum { OF_FILE, BEFORE, AFTER, IN_PLACE, AT_LAST, MARKS };
enum { PARENT, CHILD, GRANDCHILD, ALL };

static const char *const names[AREAS] = {"anonymous", "heap", "file", "grown"};
static const char *const own_names[ALL] = {"parent", "child", "grandchild"};
static unsigned self = PARENT;
static unsigned char *areas[AREAS];
static size_t pages_of[AREAS] = {2048, 1024, 256, 0};
static unsigned salts[AREAS][MOST_PAGES];
static bool read_only[AREAS][MOST_PAGES];
static int file;
static volatile int *has_written; // shared by all: [PARENT] and [CHILD]

static unsigned salt_of(unsigned mark, int area, size_t page)
{
    if (mark != OF_FILE) {
        mark = (MARKS * probe_cycle() + mark) * ALL + self;
    }
    return FIRST_SALT + (mark * AREAS + (unsigned)area) * MOST_PAGES + (unsigned)page;
}

static uint64_t word_of(unsigned salt, size_t i)
{
    return salt == ZEROS ? 0 : ((uint64_t)salt << 32) + i;
}

static unsigned char *at(int area, size_t page)
{
    return areas[area] + page * PAGE;
}

static void paint(unsigned char *page, unsigned salt)
{
    uint64_t *words = (uint64_t *)page;
    for (size_t i = 0; i < WORDS; i++) {
        words[i] = word_of(salt, i);
    }
}

static void put(int area, size_t page, unsigned salt)
{
    paint(at(area, page), salt);
    salts[area][page] = salt;
}

// Writes to every page of [FIRST, END), in steps of STEP, that can be written to.
static void change(unsigned mark, int area, size_t first, size_t end, size_t step)
{
    for (size_t page = first; page < end; page += step) {
        if (salts[area][page] != HOLE && !read_only[area][page]) {
            put(area, page, salt_of(mark, area, page));
        }
    }
}

static void change_all(unsigned mark)
{
    for (int area = 0; area < AREAS; area++) {
        change(mark, area, 0, pages_of[area], 1);
    }
}

static void release(int area, size_t first, size_t end)
{
    PROBE_TRY(madvise(at(area, first), (end - first) * PAGE, MADV_DONTNEED));
    for (size_t page = first; page < end; page++) {
        salts[area][page] = area == FILED ? salt_of(OF_FILE, FILED, page) : ZEROS;
    }
}

static void unmap(int area, size_t first, size_t end)
{
    PROBE_TRY(munmap(at(area, first), (end - first) * PAGE));
    for (size_t page = first; page < end; page++) {
        salts[area][page] = HOLE;
    }
}

static void protect(int area, size_t first, size_t end, bool from_writes)
{
    PROBE_TRY(mprotect(at(area, first), (end - first) * PAGE,
                       from_writes ? PROT_READ : PROT_READ | PROT_WRITE));
    for (size_t page = first; page < end; page++) {
        read_only[area][page] = from_writes;
    }
}

// In place of pages of the area: the beginning of the file, or with -1 fresh memory.
static void replace(int area, size_t first, size_t end, int by)
{
    PROBE_MAP(mmap(at(area, first), (end - first) * PAGE, PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_FIXED | (by < 0 ? MAP_ANONYMOUS : 0), by, 0));
    for (size_t page = first; page < end; page++) {
        salts[area][page] = by < 0 ? ZEROS : salt_of(OF_FILE, FILED, page - first);
    }
}

static unsigned char *more_heap(size_t pages)
{
    const intptr_t start = (intptr_t)PROBE_MAP(sbrk((intptr_t)((pages + 1) * PAGE)));
    return (unsigned char *)((start + PAGE - 1) / PAGE * PAGE);
}

static void grow(size_t pages)
{
    areas[GROWN] = more_heap(pages);
    pages_of[GROWN] = pages;
    change(AFTER, GROWN, 0, pages, 1);
}

static void check_page(int area, size_t page)
{
    const unsigned salt = salts[area][page];
    unsigned char resident;
    if (salt == HOLE) {
        if (mincore(at(area, page), PAGE, &resident) == 0 || errno != ENOMEM) {
            probe_fail("%s hole: page %zu of %s is there", own_names[self], page, names[area]);
        }
        return;
    }
    const uint64_t *words = (const uint64_t *)at(area, page);
    for (size_t i = 0; i < WORDS; i++) {
        if (words[i] != word_of(salt, i)) {
            probe_fail("%s %s: word %zu of page %zu of %s: expected %#llx, found %#llx",
                       own_names[self], salt == ZEROS ? "zeros" : names[area], i, page, names[area],
                       (unsigned long long)word_of(salt, i), (unsigned long long)words[i]);
        }
    }
    if (read_only[area][page] && (pread(file, at(area, page), 1, 0) != -1 || errno != EFAULT)) {
        probe_fail("%s read-only: page %zu of %s can be written to", own_names[self], page,
                   names[area]);
    }
}

static void check_all(void)
{
    for (int area = 0; area < AREAS; area++) {
        for (size_t page = 0; page < pages_of[area]; page++) {
            check_page(area, page);
        }
    }
}

// The only child, by whatever id it has now.
static void reap(const char *what)
{
    siginfo_t ended = {0};
    PROBE_TRY(waitid(P_ALL, 0, &ended, WEXITED | WNOWAIT));
    probe_reap(what, ended.si_pid);
}

static void write_and_tell(void)
{
    change_all(AT_LAST);
    __atomic_store_n(&has_written[self], 1, __ATOMIC_RELEASE);
}

static void grandchild(void)
{
    self = GRANDCHILD;
    for (int area = ANONYMOUS; area <= FILED; area++) {
        change(BEFORE, area, 1, pages_of[area], 3);
    }
    protect(ANONYMOUS, 700, 720, false);
    change(BEFORE, ANONYMOUS, 700, 720, 2);
    unmap(ANONYMOUS, 1000, 1020);
    release(ANONYMOUS, 1100, 1140);
    grow(64);
    probe_await_check();
    PROBE_SABOTAGE("grandchild anonymous", *at(ANONYMOUS, 1) ^= 1);
    PROBE_SABOTAGE("grandchild zeros", *at(ANONYMOUS, 1110) = 1);
    check_all();
    probe_await("writes of the child", &has_written[CHILD]);
    check_all();
    change_all(AT_LAST);
    check_all();
}

static void child(void)
{
    self = CHILD;
    for (int area = ANONYMOUS; area <= FILED; area++) {
        change(BEFORE, area, 0, pages_of[area], 3);
    }
    release(ANONYMOUS, 300, 340);
    release(HEAP, 40, 50);
    release(FILED, 10, 20);
    for (size_t page = 400; page < 440; page++) {
        put(ANONYMOUS, page, ZEROS);
    }
    unmap(ANONYMOUS, 600, 640);
    protect(ANONYMOUS, 700, 740, true);
    replace(ANONYMOUS, 800, 840, -1);
    change(IN_PLACE, ANONYMOUS, 800, 840, 2);
    replace(ANONYMOUS, 860, 900, file);
    change(IN_PLACE, ANONYMOUS, 860, 900, 4);
    probe_fork(grandchild);
    change(AFTER, ANONYMOUS, 5, pages_of[ANONYMOUS], 11);
    change(AFTER, HEAP, 5, pages_of[HEAP], 11);
    grow(128);
    probe_await_check();
    PROBE_SABOTAGE("child heap", *at(HEAP, 7) ^= 1);
    PROBE_SABOTAGE("child file", *at(FILED, 15) ^= 1);
    PROBE_SABOTAGE("child zeros", *at(ANONYMOUS, 310) = 1);
    PROBE_SABOTAGE("child read-only", mprotect(at(ANONYMOUS, 710), PAGE, PROT_READ | PROT_WRITE));
    PROBE_SABOTAGE("child hole", mmap(at(ANONYMOUS, 610), PAGE, PROT_READ,
                                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0));
    check_all();
    probe_await("writes of the parent", &has_written[PARENT]);
    check_all();
    write_and_tell();
    reap("grandchild");
    check_all();
}

int main(int argc, char **argv)
{
    probe_start(argc, argv);
    file = PROBE_TRY(open(probe_path("file"), O_CREAT | O_TRUNC | O_RDWR, 0600));
    has_written =
        PROBE_MAP(mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
    // Below all else: nothing else is ever mapped into a hole in it.
    areas[ANONYMOUS] =
        PROBE_MAP(mmap((void *)0x200000000, pages_of[ANONYMOUS] * PAGE, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0));
    areas[HEAP] = more_heap(pages_of[HEAP]);
    for (size_t page = 0; page < pages_of[FILED]; page++) {
        salts[FILED][page] = salt_of(OF_FILE, FILED, page);
        paint(at(HEAP, page), salts[FILED][page]);
    }
    const size_t size = pages_of[FILED] * PAGE;
    probe_equal("bytes written", (long long)size, PROBE_TRY(write(file, areas[HEAP], size)));
    areas[FILED] = PROBE_MAP(mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE, file, 0));
    do {
        has_written[PARENT] = has_written[CHILD] = 0;
        pages_of[GROWN] = 0;
        change(BEFORE, ANONYMOUS, 0, pages_of[ANONYMOUS], 1);
        change(BEFORE, HEAP, 0, pages_of[HEAP], 1);
        change(BEFORE, FILED, 0, pages_of[FILED], 5);
        probe_fork(child);
        change(AFTER, ANONYMOUS, 2, pages_of[ANONYMOUS], 7);
        change(AFTER, HEAP, 2, pages_of[HEAP], 7);
        change(AFTER, FILED, 2, pages_of[FILED], 7);
        grow(256);
        probe_ready();
        PROBE_SABOTAGE("parent anonymous", *at(ANONYMOUS, 5) ^= 1);
        PROBE_SABOTAGE("parent grown", *at(GROWN, 1) ^= 1);
        check_all();
        write_and_tell();
        reap("child");
        check_all();
    } while (probe_more());
    return probe_pass();
}
