// SPDX-License-Identifier: Apache-2.0
//
// Implementations of the capsule's hooked system calls. Each takes the kernel's arguments and
// returns what the kernel would.
//
// RULE for the files behind this header: they run with the capsule's thread-local storage, in any
// of its threads and in the middle of its libc; so no thread-local storage, raw system calls only.
#pragma once

#include <cstddef>

namespace cryo::capsule {

struct Refusal;
struct Range;

// hooks.cpp: the library is about to end the process.
void gives_up();
// The library's connection to its launcher; -1: there is none that is known.
void note_launcher(int descriptor);

// memory.cpp: confines mappings to the arena.
namespace memory {
long map(const long *a);
long unmap(const long *a);
long remap(const long *a);
long attach(const long *a); // shmat
long detach(const long *a); // shmdt
const char *complaint();    // why code could not be hooked since the last reset; null: all was
void reset();
void release_outside(); // unmaps what the capsule mapped at fixed addresses outside the arena
bool outside(unsigned number, Range &range); // iterates over those mappings
void forget();                               // in a restored copy, where they are not mapped
} // namespace memory

// descriptors.cpp: moves descriptors to high numbers, out of the program's way.
namespace descriptors {
bool begin(Refusal &why);
long made(long result, const long *a, long number); // after a call that creates descriptors
long closed(const long *a);
long copied(long number, const long *a); // dup2, dup3
int take(int fd);                        // takes over an existing one; returns its new number
void close_all();
void forget(); // in a restored copy, which has none of them
} // namespace descriptors

// dispositions.cpp: emulates the capsule's signal dispositions.
namespace dispositions {
long set(const long *a); // rt_sigaction
void reset();
void forget(); // in a restored copy
} // namespace dispositions

} // namespace cryo::capsule
