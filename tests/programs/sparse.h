// SPDX-License-Identifier: Apache-2.0
//
// Sparse memory, which a restart must not make larger: one small page in every 2 MiB is touched,
// and where huge pages are used always, each becomes 512 if nothing forbids it.
//
//     unsigned char *memory = sparse_new();
//     PROBE_TRY(madvise(memory, SPARSE_SIZE, MADV_NOHUGEPAGE));
//     sparse_touch(memory);
//     probe_ready();
//     sparse_same("sparse memory", memory);
#ifndef CRYO_TESTS_PROGRAMS_SPARSE_H
#define CRYO_TESTS_PROGRAMS_SPARSE_H

#include "probe.h"

enum {
    SPARSE_PAGES = 8,
    SPARSE_STEP = 2 * 1024 * 1024,
    SPARSE_SIZE = SPARSE_PAGES * SPARSE_STEP,
    SPARSE_SALT = 7
};

static inline unsigned char *sparse_new(void)
{
    return PROBE_MAP(aligned_alloc(SPARSE_STEP, SPARSE_SIZE));
}

static inline void sparse_touch(unsigned char *memory)
{
    for (size_t i = 0; i < SPARSE_PAGES; i++) {
        memory[i * SPARSE_STEP] = probe_byte(SPARSE_SALT, i);
    }
}

static inline void sparse_same(const char *what, unsigned char *memory)
{
    static unsigned char there[SPARSE_SIZE / 4096];
    PROBE_TRY(mincore(memory, SPARSE_SIZE, there));
    int count = 0;
    for (size_t i = 0; i < sizeof there; i++) {
        count += there[i] & 1;
    }
    // Some may be swapped out.
    probe_within(what, 0, SPARSE_PAGES, count);
    for (size_t i = 0; i < SPARSE_PAGES; i++) {
        probe_equal(what, probe_byte(SPARSE_SALT, i), memory[i * SPARSE_STEP]);
    }
}

#endif
