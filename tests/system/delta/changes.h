// SPDX-License-Identifier: Apache-2.0
//
// Shared by the parts of `changes`: its memory, and a thread with memory of its own.
#pragma once

#include <stddef.h>
#include <stdint.h>

enum { page = 4096, few = 3 };

/* Ends the program unless `good`. */
void need(int good, const char *what);
/* Maps `count` pages. */
void *map(size_t count, int flags);
/* Fills pages with contents that follow from the seed. */
void fill(unsigned char *to, size_t count, uint64_t seed);

/* Changes a thread's stack, inside a larger mapping whose other memory stays as it is. */
extern unsigned char *aside;
void by_thread_aside(uint64_t seed);
/* From now on, threads write past the page tables, by process_vm_writev(2). */
void write_for_ever(void);
