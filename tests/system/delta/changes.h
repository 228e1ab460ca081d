// SPDX-License-Identifier: Apache-2.0
//
// What the parts of `changes` share: its memory, and a thread that has some of its own.
#pragma once

#include <stddef.h>
#include <stdint.h>

enum { page = 4096, few = 3 };

/* Ends the program where that is not so. */
void need(int good, const char *what);
/* So many pages. */
void *map(size_t count, int flags);
/* Contents that follow from the seed. */
void fill(unsigned char *to, size_t count, uint64_t seed);

/* On the stack of a thread, in the midst of other memory; nothing before it is changed first. */
extern unsigned char *aside;
void by_thread_aside(uint64_t seed);
