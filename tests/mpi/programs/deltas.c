/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ranks with memory of which few pages change in each round, in every way that changes memory, and
 * all of which is verified in each: what a page has to have follows from the number of the round,
 * on which the ranks agree by messages. The argument is the number of rounds, at least; it goes on
 * until it may end. With a second one only each page of so many ever changes, however many rounds
 * are made. In CRYO_TRAFFIC_REPORT is how far it has come.
 */
#include "ring.h"

#include <fcntl.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>

#define PAGES 4096
#define CHANGED 40 /* in each round */
#define WORDS 512  /* of a page */
#define BYTES (WORDS * sizeof(uint64_t))

static uint64_t *memory;
static int apart = 1;

static uint64_t scrambled(uint64_t x)
{
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ULL;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebULL;
    return x ^ (x >> 31);
}

static uint64_t *at_page(int page)
{
    return memory + (size_t)page * WORDS;
}

static int changed_in(int round, int i)
{
    const uint64_t any = scrambled((uint64_t)round * 977 + (uint64_t)rank * 31 + (uint64_t)i);
    return (int)(any % (uint64_t)(PAGES / apart)) * apart;
}

static uint64_t word_of(int page, int round, int word)
{
    return scrambled(((uint64_t)page << 40) ^ ((uint64_t)(round + 1) << 16) ^ (uint64_t)rank ^
                     ((uint64_t)word << 52));
}

/* To the kernel, so that it reads as zeros. */
static int is_given_back(int i)
{
    return i % 8 == 5;
}

static void by_the_kernel(uint64_t *to, const uint64_t *words)
{
    int ends[2];
    CHECK(pipe(ends) == 0);
    CHECK(write(ends[1], words, BYTES) == (ssize_t)BYTES);
    CHECK(read(ends[0], to, BYTES) == (ssize_t)BYTES);
    close(ends[0]);
    close(ends[1]);
}

static void mapped_anew(uint64_t *to, const uint64_t *words)
{
    CHECK(mmap(to, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) ==
          to);
    memcpy(to, words, BYTES);
}

static void received(uint64_t *to, const uint64_t *words)
{
    MPI_Request request;
    OK(MPI_Irecv(to, BYTES, MPI_BYTE, left, 3, MPI_COMM_WORLD, &request));
    OK(MPI_Send(words, BYTES, MPI_BYTE, right, 3, MPI_COMM_WORLD));
    OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
}

/* What comes from the left neighbour has a page of its own, behind all others. */
static void change(int round)
{
    uint64_t words[WORDS];
    for (int i = 0; i < CHANGED; i++) {
        const int page = changed_in(round, i);
        if (is_given_back(i)) {
            CHECK(madvise(at_page(page), BYTES, MADV_DONTNEED) == 0);
            continue;
        }
        for (int word = 0; word < WORDS; word++)
            words[word] = word_of(page, round, word);
        if (i % 16 == 2)
            mapped_anew(at_page(page), words);
        else if (i % 4 == 1)
            by_the_kernel(at_page(page), words);
        else
            memcpy(at_page(page), words, BYTES);
    }
    for (int word = 0; word < WORDS; word++)
        words[word] = (uint64_t)rank << 32 | (uint64_t)round;
    received(at_page(PAGES), words);
}

static void verify(int round)
{
    static int last[PAGES]; /* the round that has changed it; -1: it was given back */
    memset(last, 0, sizeof(last));
    for (int r = 1; r <= round; r++) {
        for (int i = 0; i < CHANGED; i++)
            last[changed_in(r, i)] = is_given_back(i) ? -1 : r;
    }
    for (int page = 0; page < PAGES; page++) {
        for (int word = page % 61; word < WORDS; word += 61)
            CHECK(at_page(page)[word] == (last[page] < 0 ? 0 : word_of(page, last[page], word)));
    }
    for (int word = 0; word < WORDS; word++)
        CHECK(at_page(PAGES)[word] == ((uint64_t)left << 32 | (uint64_t)round));
}

static void tell(int round)
{
    char text[32];
    const char *report = getenv("CRYO_TRAFFIC_REPORT");
    const int length = snprintf(text, sizeof(text), "%d\n", round);
    if (rank != 0 || report == NULL)
        return;
    const int file = open(report, O_WRONLY | O_CREAT, 0600);
    CHECK(file >= 0 && pwrite(file, text, (size_t)length, 0) == length && close(file) == 0);
}

int main(int argc, char **argv)
{
    const int rounds = argc > 1 ? atoi(argv[1]) : 100;
    const char *hold = getenv("CRYO_HOLD");
    apart = argc > 2 ? atoi(argv[2]) : 1;
    begin_ring(&argc, &argv);
    memory =
        mmap(NULL, (PAGES + 1) * BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(memory != MAP_FAILED);
    for (int page = 0; page < PAGES; page++) {
        for (int word = 0; word < WORDS; word++)
            at_page(page)[word] = word_of(page, 0, word);
    }
    for (int round = 1, on = 1; on; round++) {
        change(round);
        pass_on(round, MPI_COMM_WORLD);
        verify(round);
        tell(round);
        usleep(2000);
        on = round < rounds || (hold != NULL && access(hold, F_OK) == 0);
        OK(MPI_Bcast(&on, 1, MPI_INT, 0, MPI_COMM_WORLD));
    }
    printf("%d: %016llx\n", rank, (unsigned long long)scrambled((uint64_t)rank + 1));
    OK(MPI_Finalize());
    return 0;
}
