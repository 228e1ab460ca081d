// SPDX-License-Identifier: Apache-2.0
// Memory that a child has from its parent, and that has grown in the child since: a mapping by
// mremap(2), and a heap that shrank before, so that what grew begins in the parent's and ends
// behind it. Some of it has contents, the last page of each has none yet.
#include "probe.h"

#include <sys/mman.h>
#include <sys/wait.h>

enum { PAGE = 4096, WORDS = PAGE / 8 };
enum { OLD = 2048, MORE = 64, LESS = 33 }; // pages

static uint64_t *mapping, *heap;
static size_t mapped = OLD, in_heap = OLD;
static uint64_t salt = 1;

static void fill(uint64_t *area, size_t first, size_t end)
{
    for (size_t i = first * WORDS; i < end * WORDS; i++) {
        area[i] = salt + i;
    }
}

static void check(const char *what, const uint64_t *area, size_t pages)
{
    for (size_t i = 0; i < pages * WORDS; i++) {
        if (area[i] != salt + i) {
            probe_fail("%s: word %zu: expected %llu, found %llu", what, i,
                       (unsigned long long)(salt + i), (unsigned long long)area[i]);
        }
    }
}

static void check_zeros(const char *what, uint64_t *page)
{
    for (size_t i = 0; i < WORDS; i++) {
        probe_equal(what, 0, (long long)page[i]);
    }
    page[0] = 1;
    page[0] = 0;
}

static void remap(size_t pages)
{
    probe_true("the mapping grows in its place",
               PROBE_MAP(mremap(mapping, mapped * PAGE, pages * PAGE, 0)) == mapping);
    mapped = pages;
}

static void child(void)
{
    salt = 2;
    remap(OLD + MORE);
    PROBE_MAP(sbrk(-LESS * PAGE));
    PROBE_MAP(sbrk((LESS + MORE) * PAGE));
    in_heap += MORE;
    fill(mapping, 0, mapped - 1);
    fill(heap, OLD - LESS, in_heap - 1);
    fill(heap, 0, OLD - LESS);
    probe_await_check();
    PROBE_SABOTAGE("mapping", mapping[OLD * WORDS] = 0);
    PROBE_SABOTAGE("heap", heap[OLD * WORDS] = 0);
    check("mapping of the child", mapping, mapped - 1);
    check("heap of the child", heap, in_heap - 1);
    check_zeros("last page of the mapping", mapping + (mapped - 1) * WORDS);
    check_zeros("last page of the heap", heap + (in_heap - 1) * WORDS);
    probe_true("end of the heap", sbrk(0) == heap + in_heap * WORDS);
    remap(OLD + 2 * MORE);
    check_zeros("what it grew by", mapping + (mapped - 1) * WORDS);
}

// The only child, by whatever id it has now.
static void reap(void)
{
    siginfo_t ended = {0};
    PROBE_TRY(waitid(P_ALL, 0, &ended, WEXITED | WNOWAIT));
    probe_reap("child", ended.si_pid);
}

int main(int argc, char **argv)
{
    probe_start(argc, argv);
    // Nothing else is ever mapped behind it.
    mapping = PROBE_MAP(mmap((void *)0x200000000, OLD * PAGE, PROT_READ | PROT_WRITE,
                             MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0));
    const uintptr_t end = (uintptr_t)sbrk(0);
    PROBE_MAP(sbrk((intptr_t)(-end % PAGE)));
    heap = PROBE_MAP(sbrk(OLD * PAGE));
    fill(mapping, 0, OLD);
    fill(heap, 0, OLD);
    do {
        probe_fork(child);
        probe_ready();
        check("mapping of the parent", mapping, mapped);
        check("heap of the parent", heap, in_heap);
        reap();
    } while (probe_more());
    return probe_pass();
}
