/* SPDX-License-Identifier: Apache-2.0 */
/* Memory that changes on command, with a checksum of its contents.
 *
 *     memory DIRECTORY PAGES [CHILDREN]
 *
 * Reads DIRECTORY/command.N, N from 1, as it appears: one line
 *     fill SEED FIRST COUNT    pages with other bytes, which depend on SEED and the page only
 *     zero FIRST COUNT         pages of zeros
 *     drop FIRST COUNT         pages given back to the kernel
 *     end
 * and answers in DIRECTORY/answer.N with a checksum of all pages. A child answers only the first
 * command, and its answer ends in .child.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

enum { page_size = 4096 };

static uint64_t mix(uint64_t x)
{
    x ^= x >> 30;
    x *= 0xbf58476d1ce4e5b9U;
    x ^= x >> 27;
    x *= 0x94d049bb133111ebU;
    return x ^ x >> 31;
}

static void fill(uint64_t *page, uint64_t seed, uint64_t number)
{
    for (size_t i = 0; i < page_size / sizeof(*page); i++)
        page[i] = mix(seed << 40 ^ number << 16 ^ i);
}

static uint64_t sum(const uint64_t *memory, uint64_t pages)
{
    uint64_t total = 0;
    for (uint64_t i = 0; i < pages * page_size / sizeof(*memory); i++)
        total = mix(total ^ memory[i]) + i;
    return total;
}

static int obey(uint64_t *memory, const char *line)
{
    unsigned long long a, b, c;
    const size_t words = page_size / sizeof(*memory);
    if (sscanf(line, "fill %llu %llu %llu", &a, &b, &c) == 3) {
        for (unsigned long long i = b; i < b + c; i++)
            fill(memory + i * words, a, i);
    } else if (sscanf(line, "zero %llu %llu", &a, &b) == 2) {
        memset(memory + a * words, 0, b * page_size);
    } else if (sscanf(line, "drop %llu %llu", &a, &b) == 2) {
        if (madvise(memory + a * words, b * page_size, MADV_DONTNEED) != 0)
            abort();
    } else {
        return 0;
    }
    return 1;
}

/* The file appears complete, since the test renames it into place. */
static void await(const char *directory, int number, char line[128])
{
    char path[512];
    snprintf(path, sizeof(path), "%s/command.%d", directory, number);
    for (;;) {
        FILE *file = fopen(path, "r");
        if (file != NULL) {
            if (fgets(line, 128, file) == NULL)
                abort();
            fclose(file);
            return;
        }
        const struct timespec pause = {0, 1000000};
        nanosleep(&pause, NULL);
    }
}

static void answer(const char *directory, int number, const char *suffix, uint64_t value)
{
    char name[512];
    char path[512];
    snprintf(name, sizeof(name), "%s/.answer.%d%s", directory, number, suffix);
    snprintf(path, sizeof(path), "%s/answer.%d%s", directory, number, suffix);
    FILE *file = fopen(name, "w");
    if (file == NULL)
        abort();
    fprintf(file, "%llx\n", (unsigned long long)value);
    fclose(file);
    if (rename(name, path) != 0)
        abort();
}

int main(int argc, char **argv)
{
    if (argc < 3)
        return 2;
    const char *directory = argv[1];
    const uint64_t pages = strtoull(argv[2], NULL, 10);
    const int is_tree = argc > 3;
    uint64_t *memory =
        mmap(NULL, pages * page_size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED)
        return 1;
    for (uint64_t i = 0; i < pages; i++)
        fill(memory + i * (page_size / sizeof(*memory)), 1, i);
    const char *suffix = "";
    if (is_tree && fork() == 0) {
        suffix = ".child";
        fill(memory, 99, 0);
    }
    answer(directory, 0, suffix, sum(memory, pages));
    for (int number = 1;; number++) {
        char line[128];
        await(directory, number, line);
        if (!obey(memory, line))
            return 0;
        answer(directory, number, suffix, sum(memory, pages));
    }
}
