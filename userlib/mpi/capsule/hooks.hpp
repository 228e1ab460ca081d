// SPDX-License-Identifier: Apache-2.0
//
// What the capsule's hooked system calls do instead. Each takes the kernel's arguments and answers
// as the kernel would.
//
// RULE for the files behind this header: they run with the capsule's thread-local storage, in any
// of its threads and in the middle of its libc; no thread-local storage, raw system calls only.
#pragma once

#include <cstddef>

namespace cryo::capsule {

struct Refusal;
struct Range;

// memory.cpp: confines mappings to the arena.
namespace memory {
long map(const long *a);
long unmap(const long *a);
long remap(const long *a);
long attach(const long *a); // shmat
long detach(const long *a); // shmdt
const char *complaint();    // why code could not be hooked, since the last reset; null: it could
void reset();
void release_outside(); // unmaps what lies outside the arena because the capsule insisted
bool outside(unsigned number, Range &range); // what lies there, one after the other
void forget();                               // in a restored copy, where it is not
} // namespace memory

// descriptors.cpp: moves descriptors up, out of the program's way.
namespace descriptors {
bool begin(Refusal &why);
long made(long result, const long *a, long number); // after a call that makes descriptors
long closed(const long *a);
long copied(long number, const long *a); // dup2, dup3
int take(int fd);                        // one that there was already; its number from now on
void close_all();
void forget(); // in a restored copy, which has none of them
} // namespace descriptors

// dispositions.cpp: the capsule may believe that it handles signals.
namespace dispositions {
long set(const long *a); // rt_sigaction
void reset();
void forget(); // in a restored copy
} // namespace dispositions

} // namespace cryo::capsule
